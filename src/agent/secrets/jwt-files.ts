import { basename, dirname, join } from "node:path";
import { messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/events.ts";
import { InterruptibleSleep } from "../../foundation/interruptible-sleep.ts";
import { RenewalPlan } from "../../foundation/renewal-plan.ts";
import type { SpiffeId } from "../../pki/spiffe-id.ts";
import { AtomicFile } from "../../program/files/atomic-file.ts";
import type { JwtFile } from "../configuration.ts";
import { DescriptorPath } from "../descriptor-path.ts";
import type { JwtSvids } from "../identity/jwt-svids.ts";
import type { JwtBundles } from "../trust/bundles.ts";

interface JwtFilesOptions {
  readonly files: readonly JwtFile[];
  readonly spiffeId: SpiffeId;
  readonly jwtSvids: JwtSvids;
  readonly jwtBundles: JwtBundles;
  readonly clock: () => Date;
  readonly random: () => number;
  readonly log: OperationLog;
}

/** The least pause before a token is asked for again. */
const shortestMilliseconds = 5_000;

/**
 * Keeps JWT-SVIDs in files, such as that of `AWS_WEB_IDENTITY_TOKEN_FILE`. A file has the token without a newline,
 * because some programs send what they read as it is.
 */
export class JwtFiles {
  readonly #options: JwtFilesOptions;
  readonly #ending = new AbortController();
  readonly #faults = new Map<string, string>();
  readonly #running: Promise<unknown>;

  constructor(options: JwtFilesOptions) {
    this.#options = options;
    this.#running = Promise.all(options.files.map((file) => this.#keep(file)));
  }

  /** Why programs that read the files may use old ones: one sentence for each file. */
  get faults(): readonly string[] {
    return [...this.#faults.values()];
  }

  async close(): Promise<void> {
    this.#ending.abort();
    await this.#running;
  }

  async #keep(file: JwtFile): Promise<void> {
    const { jwtSvids, jwtBundles, spiffeId, clock, random, log } = this.#options;
    const { signal } = this.#ending;
    const sleep = new InterruptibleSleep(clock);
    const unsubscribe = jwtBundles.changes.add(() => sleep.interrupt());
    let written: string | undefined;
    for (let failures = 0; !signal.aborted; ) {
      let next: Date;
      try {
        const { token, renewsAt } = await jwtSvids.obtain(spiffeId, [file.audience]);
        if (token !== written) {
          await write(file, token);
          log.operation({ event: "files-written", level: "info", file: file.path });
        }
        [written, failures] = [token, 0];
        this.#faults.delete(file.path);
        next = new Date(Math.max(renewsAt.getTime(), clock().getTime() + shortestMilliseconds));
      } catch (error) {
        const detail = `${file.path} has no new token for ${file.audience}: ${messageOf(error)}`;
        this.#faults.set(file.path, detail);
        if (!signal.aborted) log.operation({ event: "files-unwritten", level: "error", detail });
        next = RenewalPlan.retryAt(++failures, random(), clock());
      }
      await sleep.until(next, signal);
    }
    unsubscribe();
  }
}

async function write({ path, owner }: JwtFile, token: string): Promise<void> {
  await DescriptorPath.withinPlace(dirname(path), (folder) =>
    AtomicFile.replace(join(folder, basename(path)), token, {
      mode: 0o600,
      give: owner && ((handle) => handle.chown(owner.uid, owner.gid)),
    }),
  );
}
