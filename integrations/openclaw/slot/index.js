// The entry that OpenClaw loads for its memory slot; what the plugin does is in ../slot.js.
import { definePluginEntry } from "openclaw/plugin-sdk/plugin-entry";

import { register } from "../slot.js";

export default definePluginEntry({
  id: "memory-fusion-slot",
  name: "Memory fusion, in the memory slot",
  description: "OpenClaw's memory: tools, recall, capture and flush over all of your memory systems.",
  register,
});
