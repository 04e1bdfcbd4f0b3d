import { X509Certificate } from "node:crypto";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { IssuerTable } from "../../../config/issuer-table.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { pause } from "../../../foundation/pause.ts";
import { ConfigurationFile } from "../../../node/files/configuration-file.ts";
import { StoreOwner } from "../../../node/files/store-owner.ts";
import { Pem } from "../../../pki/encoding/pem.ts";
import { PemFile } from "../../../program/files/pem-file.ts";
import { LogError } from "../../../tlog/log-error.ts";
import { exitCodes, usageError } from "../../terminal/command-line.ts";
import { orOperatorError, repeatedly } from "../../terminal/failures.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { type Anomaly, anomaliesIn, findings, type Watch } from "./anomalies.ts";
import { auditedIn, type ExportSource, entriesOf } from "./export/event-sources.ts";
import { Export } from "./export/export.ts";
import { type Follower, type FollowerOptions, openFollower, synchronize } from "./follower.ts";
import { judgingLog, openSource, shardName } from "./log-source.ts";

/** The options of `log follow`. */
export interface FollowOptions extends FollowerOptions {
  readonly authorities?: string;
  readonly config?: string;
  readonly identitiesPerNode: number;
  readonly othersPerNode: number;
  readonly staleAfter: number;
  readonly every?: number;
  readonly to?: string;
  readonly ocsf?: boolean;
  readonly audit?: string;
}

/**
 * Copies and verifies the new entries of a log, or of all shards below its prefix, prints each finding for a person as
 * one line of JSON, and exports the entries; once, or repeatedly until a signal.
 * @throws OperatorError with the exit code `attention` for findings of a single run (repeated runs only print them),
 *   `broken` if a log contradicts itself.
 */
export async function follow(terminal: Terminal, options: FollowOptions): Promise<void> {
  const { dir, to, ocsf, audit, every } = options;
  if (dir === undefined) throw usageError("name the copy: --dir");
  if (to === undefined && (ocsf || audit !== undefined)) throw usageError("say where to: --to");
  using following = new Following(terminal, await watchOf(options), { ...options, dir });
  await following.start();
  if (every === undefined) {
    const findings = await following.run(longestWaitMilliseconds);
    if (findings === 0) return;
    throw new OperatorError(`findings: ${findings}`, { exitCode: exitCodes.attention });
  }
  // A log that does not answer may answer the next time; one that contradicts itself will not mend.
  await repeatedly(terminal, every, (ending) => following.run(1000 * every, ending));
}

/** How long a run that is not repeated waits for a collector. */
const longestWaitMilliseconds = 60_000;

/** The copies of the followed shards, and the export of what is new in them. */
class Following implements Disposable {
  readonly #terminal: Terminal;
  readonly #watch: Watch;
  readonly #options: FollowOptions & { readonly dir: string };
  readonly #followers = new Map<string, Follower>();
  /** The last notice about each shard. */
  readonly #said = new Map<string, string>();
  #export: Export | undefined;

  constructor(terminal: Terminal, watch: Watch, options: FollowOptions & { readonly dir: string }) {
    this.#terminal = terminal;
    this.#watch = watch;
    this.#options = options;
  }

  /**
   * Opens the export, if there is one.
   * @throws OperatorError for a wrong option, and if another process has it open.
   */
  async start(): Promise<void> {
    const { to, dir, ocsf } = this.#options;
    if (to === undefined) return;
    await StoreOwner.makeFolder(dir, await StoreOwner.of(dir));
    this.#export = await Export.open(this.#terminal, { to, dir, ...(ocsf && { ocsf }) });
  }

  /**
   * Reads every shard once, then exports. If one fails, the others are read nevertheless.
   * @param milliseconds The longest wait for a collector.
   * @returns The number of findings.
   * @throws The worst failure.
   */
  async run(milliseconds: number, ending?: AbortSignal): Promise<number> {
    const failures: unknown[] = [];
    let findings = 0;
    const shards = await this.#shards().catch((error: unknown) => {
      failures.push(error);
      return new Map<string, boolean>();
    });
    for (const [shard, isListed] of shards) {
      try {
        findings += await judgingLog(() => this.#look(shard, isListed));
      } catch (error) {
        failures.push(error);
      }
    }
    const before = this.#export?.findings ?? 0;
    await judgingLog(() => this.#exportWithin(milliseconds, ending)).catch((error: unknown) =>
      failures.push(error),
    );
    findings += (this.#export?.findings ?? 0) - before;
    this.#sayHowFar();
    const worst = failures.find(isBroken) ?? failures.at(-1);
    for (const failure of failures) {
      if (failure !== worst && failure instanceof OperatorError)
        this.#terminal.complain(failure.message);
    }
    if (worst !== undefined) throw worst;
    return findings;
  }

  /**
   * The shards that the server lists or the copy has, each with whether it is listed. A log that is itself a shard has
   * the name "".
   */
  async #shards(): Promise<ReadonlyMap<string, boolean>> {
    const { dir } = this.#options;
    const source = await openSource(this.#options, this.#terminal.environment);
    const listed = await judgingLog(async () => (await source?.shardsBelow()) ?? []);
    const copied = (await readdir(dir).catch(() => [])).filter((name) => shardName.test(name));
    if (listed.length === 0 && (source || copied.length === 0)) return new Map([["", true]]);
    return new Map(
      [...copied, ...listed].map((shard) => [shard, !source || listed.includes(shard)]),
    );
  }

  async #look(shard: string, isListed: boolean): Promise<number> {
    const follower = this.#followers.get(shard) ?? (await this.#open(shard));
    this.#followers.set(shard, follower);
    try {
      return await followOnce(follower, this.#watch, this.#terminal.clock());
    } catch (error) {
      if (isListed || !(error instanceof LogError && error.fault === "missing")) throw error;
      const [detail] = findings["shard-gone"];
      this.#terminal.print(JSON.stringify({ log: shard, finding: "shard-gone", detail }));
      return 1;
    }
  }

  #open(shard: string): Promise<Follower> {
    const { url, dir, ...options } = this.#options;
    if (shard === "") return openFollower(this.#terminal, { ...this.#options, json: true });
    if (options.key !== undefined) throw usageError("--key is of one shard: give --policy");
    const below = {
      ...(url !== undefined && { url: `${url.replace(/\/+$/, "")}/${shard}` }),
      dir: join(dir, shard),
    };
    return openFollower(this.#terminal, { ...options, ...below, json: true });
  }

  async #exportWithin(milliseconds: number, ending?: AbortSignal): Promise<void> {
    if (!this.#export) return;
    const { audit, every } = this.#options;
    const sources: ExportSource[] = [...this.#followers.values()].flatMap(
      ({ index }) => entriesOf(index) ?? [],
    );
    if (audit !== undefined) sources.push(auditedIn(audit, this.#terminal));
    for (const end = performance.now() + milliseconds; ; ) {
      const wait = await this.#export.run(sources);
      if (wait === 0) return;
      const isLate = performance.now() + wait > end;
      if (isLate && every === undefined) {
        const sentence =
          "the collector takes nothing: run this again when it does, or give --every";
        throw new OperatorError(sentence);
      }
      if (isLate) return;
      await pause(wait, ending);
      if (ending?.aborted) return;
    }
  }

  #sayHowFar(): void {
    for (const { index } of this.#followers.values()) {
      const source = entriesOf(index);
      if (!source) continue;
      const { size } = source;
      const exported = this.#export && `, ${this.#export.progress(source.name)}`;
      const line = `rampart: ${source.name}: ${size} entries${exported ?? ""}`;
      if (this.#said.get(source.name) !== line) this.#terminal.notice(line);
      this.#said.set(source.name, line);
    }
  }

  [Symbol.dispose](): void {
    for (const follower of this.#followers.values()) follower[Symbol.dispose]();
    this.#export?.[Symbol.dispose]();
  }
}

const isBroken = (error: unknown): boolean =>
  !(error instanceof OperatorError) || error.exitCode === exitCodes.broken;

async function followOnce(follower: Follower, watch: Watch, now: Date): Promise<number> {
  const { checkpoint, cosigned } = await synchronize(follower);
  const anomalies: Anomaly[] = [
    ...anomaliesIn(follower.index, follower.index.watched(), watch, now),
  ];
  if (!follower.policy.isQuorum(new Set(cosigned.keys()))) {
    anomalies.push({ finding: "quorum-lost", detail: "too few witnesses cosigned the checkpoint" });
  }
  for (const anomaly of anomalies) {
    follower.terminal.print(
      JSON.stringify({ log: checkpoint.origin, size: checkpoint.size, ...anomaly }),
    );
  }
  // Stored only after the anomalies are printed: other verbs update the copy as well, and a program may be killed
  // before.
  follower.index.saveWatched(checkpoint.size);
  return anomalies.length;
}

async function watchOf(options: FollowOptions): Promise<Watch> {
  return {
    authorities: await readAuthorities(options.authorities),
    issuers: options.config === undefined ? undefined : await issuersIn(options.config),
    identitiesPerNode: options.identitiesPerNode,
    othersPerNode: options.othersPerNode,
    staleAfterSeconds: options.staleAfter,
  };
}

/**
 * Reads the certificates in a PEM file.
 * @returns `undefined` without a file.
 * @throws OperatorError if it cannot be read or has none.
 */
export async function readAuthorities(
  file: string | undefined,
): Promise<readonly X509Certificate[] | undefined> {
  const pem = await PemFile.readRoots(file);
  return pem === undefined
    ? undefined
    : Pem.certificates(pem).map((base64) => new X509Certificate(Buffer.from(base64, "base64")));
}

async function issuersIn(file: string): Promise<Watch["issuers"]> {
  const { ISSUERS } = await orOperatorError(() => ConfigurationFile.read(file, {}));
  const tables = IssuerTable.schema.safeParse(ISSUERS);
  if (tables.success) return tables.data;
  throw new OperatorError(`${file}: its ISSUERS are not as they must be`);
}
