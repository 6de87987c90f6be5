// The plugin's settings, as `plugins.entries.<id>.config` of OpenClaw's settings has them, with their defaults.

/**
 * @typedef {object} Settings
 * @property {string} [home] the folder of the home; else that of FUSION_HOME, else the user's own
 * @property {string} command the command `fusion`
 * @property {string} [url] a server on another computer, instead of a home
 * @property {string} [userId] whose memories are read and written
 * @property {string[]} ownerPeers the owner in direct messages: "telegram:123"
 * @property {string} recipe of the block that is recalled
 * @property {"system" | "user"} place of the block: the system prompt, or the user's message
 * @property {number} recallTimeoutMs that a prompt waits
 * @property {boolean} recall
 * @property {boolean} capture
 */

/**
 * @param {Record<string, unknown> | undefined} config
 * @returns {Settings}
 */
export function settingsOf(config) {
  return {
    command: process.env.FUSION_COMMAND || "fusion",
    ownerPeers: [],
    recipe: "seed002",
    place: "system",
    recallTimeoutMs: 200,
    recall: true,
    capture: true,
    .../** @type {Partial<Settings>} */ (config),
  };
}
