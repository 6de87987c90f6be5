// The companion: memories for each prompt, capture of each turn, and tools, while another plugin has the memory slot.
import { registerHooks } from "./hooks.js";
import { memoryOf } from "./memory.js";
import { settingsOf } from "./settings.js";
import { registerSupplements } from "./supplements.js";
import { registerTools } from "./tools.js";
/** @import { OpenClawPluginApi } from "openclaw/plugin-sdk/plugin-entry" */

const SLOT = "memory-fusion-slot"; // the plugin that does the same from within the slot

/** @param {OpenClawPluginApi} api */
export function register(api) {
  if (api.config?.plugins?.slots?.memory === SLOT) {
    return api.logger.warn(`memory-fusion: ${SLOT} has the memory slot and does this plugin's work; disable memory-fusion`);
  }
  const settings = settingsOf(api.pluginConfig);
  const memory = memoryOf(settings, api.logger);
  registerHooks(api, settings, memory);
  registerSupplements(api, memory);
  registerTools(api, memory, { fusion_recall: "recall", fusion_store: "store", fusion_forget: "forget" });
}
