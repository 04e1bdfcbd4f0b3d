import type { LogConfiguration } from "../../../src/config/optional-parts.ts";

/** A log of one shard with no witnesses and no readers, but for these members. */
export const logConfiguration = (members: Partial<LogConfiguration>): LogConfiguration => ({
  origin: "log.test",
  mode: "required",
  inceptionDate: undefined,
  intervalSeconds: 1,
  shards: 1,
  witnesses: undefined,
  readers: [],
  hasPublicTiles: false,
  ...members,
});
