"""The calls on an open home about the layers of long memories: what packs show, and what a language model writes."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from fusion.contract import LanguageModel
from fusion.errors import BadInput, FusionError
from fusion.gateway.in_tenant import in_tenant
from fusion.gateway.parts import DEFAULT, TenantParts
from fusion.journal import layers
from fusion.lib.layers import Layers, layers_of
from fusion.recall.filter import Record
from fusion.upkeep.layers import Done, LayerWriter

log = logging.getLogger(__name__)


class LayerCalls(TenantParts):
    """The calls of an open home about layers, for one tenant."""

    __slots__ = ()

    async def layers_of_events(self, event_ids: Sequence[str], records: Mapping[str, Record]) -> Mapping[str, Layers]:
        """The layers of these memories by event id: stored ones, else the rules', which are stored afterwards."""
        wanted = [event_id for event_id in event_ids if event_id in records]
        if not wanted:
            return {}
        stored = await self._stored_layers(wanted)
        made = {event_id: layers_of(records[event_id].event.text) for event_id in wanted if event_id not in stored}
        self.layers.note(made)
        return {**stored, **made}

    async def _stored_layers(self, event_ids: Sequence[str]) -> Mapping[str, Layers]:
        try:
            return await self.journal.read(layers.of, event_ids, by_model=self.settings.packs.layers_by_model)
        except FusionError as error:
            log.warning("the stored layers of memories cannot be read, the rules make them: %s", error)
            return {}

    @in_tenant
    async def layers_waiting(self, tenant: str = DEFAULT) -> int:
        """How many long memories of a tenant the language model may be asked about now. Raises BadInput without one."""
        self._layer_model()
        return await self.journal.snapshot(layers.waiting, self.live.now())

    @in_tenant
    async def write_next_layers(self, tenant: str = DEFAULT, before: int | None = None) -> Done | None:
        """Have the language model write the layers of the next memory, as `LayerWriter.next`. Raises BadInput."""
        return await LayerWriter(self.journal, self._layer_model(), self.live.now).next(before)

    def _layer_model(self) -> LanguageModel:
        """The language model that may write layers. Raises BadInput, which says what to set."""
        if self.model is None or not self.settings.packs.layers_by_model:
            raise BadInput(
                "No language model writes layers: rules make them. Set [packs] layers_by_model = true, and name a "
                "language model in [model]"
            )
        return self.model
