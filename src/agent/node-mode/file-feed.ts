import { messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/event-log.ts";
import type { TrustDomain } from "../../pki/spiffe-id.ts";
import { readSmallFile } from "../../program/files/small-file.ts";
import { FileWatch } from "../secrets/file-watch.ts";
import {
  parseWorkload,
  type Workload,
  type WorkloadFeed,
  type WorkloadListener,
} from "./workload.ts";

const maximumBytes = 4 << 20;

/** The answer to more workloads than any node runs. */
export const tooManyWorkloads = "too many workloads";

/** The dependencies of a feed. */
export interface FeedOptions {
  readonly path: string;
  readonly trustDomain: TrustDomain;
  readonly listener: WorkloadListener;
  readonly log: OperationLog;
}

/**
 * Starts a feed from a file of lines `uid namespace serviceaccount`; `#` begins a comment. The file lists
 * every workload. While it is missing or wrong, the last good list stays in force.
 */
export async function startFileFeed(options: FeedOptions): Promise<WorkloadFeed> {
  const { path, listener, log, trustDomain } = options;
  let fault: string | undefined = `${path} has not been read`;
  const read = async (): Promise<void> => {
    try {
      const workloads = parseWorkloadFile(await readSmallFile(path, maximumBytes), trustDomain);
      if (!listener.replaceAll(workloads)) throw new Error(tooManyWorkloads);
      fault = undefined;
      log.operation({ event: "workloads-read", level: "info", workloads: workloads.length });
    } catch (error) {
      const detail = messageOf(error);
      if (fault !== undefined) fault = detail;
      log.operation({ event: "workloads-unread", level: "error", path, detail });
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
  return {
    get fault() {
      return fault;
    },
    close: async () => watch.close(),
  };
}

/** @throws Error with the number of the first wrong line. */
export function parseWorkloadFile(text: string, trustDomain: TrustDomain): readonly Workload[] {
  return text.split("\n").flatMap((line, i) => {
    const [content = ""] = line.split("#");
    const words = content.trim().split(/\s+/);
    if (words[0] === "") return [];
    const [uid = "", namespace = "", serviceAccount = "", ...rest] = words;
    const workload = parseWorkload(trustDomain, uid, namespace, serviceAccount);
    if (workload && rest.length === 0) return [workload];
    throw new Error(`line ${i + 1} must be: uid namespace serviceaccount`);
  });
}
