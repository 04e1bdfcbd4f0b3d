import { readFile, stat } from "node:fs/promises";
import { messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/event-log.ts";
import type { TrustDomain } from "../../pki/spiffe-id.ts";
import { FileWatch } from "../secrets/file-watch.ts";
import {
  parseWorkload,
  type Workload,
  type WorkloadAudience,
  type WorkloadFeed,
} from "./workload.ts";

const maximumBytes = 4 << 20;

/** What a feed stands on. */
export interface FeedOptions {
  readonly path: string;
  readonly trustDomain: TrustDomain;
  readonly audience: WorkloadAudience;
  readonly log: OperationLog;
}

/**
 * Workloads from a file: one a line, `uid namespace serviceaccount`; `#` begins a comment. The file is
 * the whole truth. While it is missing or wrong, the last good one stands.
 */
export async function startFileFeed(options: FeedOptions): Promise<WorkloadFeed> {
  const { path, audience, log, trustDomain } = options;
  const read = async (): Promise<void> => {
    try {
      const workloads = parseWorkloadFile(await readBounded(path), trustDomain);
      audience.replaceAll(workloads);
      log.operation({ event: "workloads-read", level: "info", workloads: workloads.length });
    } catch (error) {
      log.operation({ event: "workloads-unread", level: "error", path, detail: messageOf(error) });
    }
  };
  const onFailure = (error: unknown): void =>
    log.operation({
      event: "file-unwatched",
      level: "warning",
      file: path,
      detail: messageOf(error),
    });
  const onChange = (): void => void read();
  const watch = new FileWatch(path, { debounceMilliseconds: 100, onChange, onFailure });
  await read();
  return { close: async () => watch.close() };
}

/** @throws Error that names the first line which is wrong. */
export function parseWorkloadFile(text: string, trustDomain: TrustDomain): readonly Workload[] {
  return text.split("\n").flatMap((line, i) => {
    const [content = ""] = line.split("#");
    const words = content.trim().split(/\s+/);
    if (words[0] === "") return [];
    const [uid = "", namespace = "", serviceAccount = "", ...rest] = words;
    const workload = parseWorkload(trustDomain, uid, namespace, serviceAccount);
    if (workload && rest.length === 0) return [workload];
    throw new Error(`line ${i + 1} is not: uid namespace serviceaccount`);
  });
}

async function readBounded(path: string): Promise<string> {
  const { size } = await stat(path);
  if (size > maximumBytes) throw new Error(`the file has more than ${maximumBytes} octets`);
  return await readFile(path, "utf8");
}
