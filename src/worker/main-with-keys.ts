import { waitUntil } from "cloudflare:workers";
import { PlatformKeys } from "../config/platform-keys.ts";
import { LogSearch } from "../status/log-search.ts";
import { createConsole } from "./console.ts";
import { IssuanceLogShard as LogShard } from "./log/log-shard.ts";
import { openWorkerLog } from "./log/worker-log.ts";
import type { Worker } from "./variables.ts";
import { createWorker } from "./worker.ts";

/** A shard whose key may be sealed under a KEK that a key service unwraps. */
export class IssuanceLogShard extends LogShard {
  /** @internal */
  protected override readonly openKeyCustody = PlatformKeys.open;
}

const worker: Worker = createWorker({
  clock: () => new Date(),
  openLog: openWorkerLog,
  addConsole: createConsole(LogSearch.in),
  openKeyCustody: PlatformKeys.open,
  inBackground: (work) => waitUntil(work),
});

export default worker;
