import type { LogConfiguration } from "../../../src/config/log-keys.ts";
/** A log of one shard with no witnesses and no readers, but for these members. */
export declare const logConfiguration: (members: Partial<LogConfiguration>) => LogConfiguration;
