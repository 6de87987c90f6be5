// The entry that OpenClaw loads; what the plugin does is in companion.js.
import { definePluginEntry } from "openclaw/plugin-sdk/plugin-entry";

import { register } from "./companion.js";

export default definePluginEntry({
  id: "memory-fusion",
  name: "Memory fusion",
  description: "Recalls before the model's call, and captures what was said after the reply.",
  register,
});
