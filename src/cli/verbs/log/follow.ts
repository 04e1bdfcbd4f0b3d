import { X509Certificate } from "node:crypto";
import { issuerTables } from "../../../config/issuer-table.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { readConfigurationFile } from "../../../node/files/configuration-file.ts";
import { Pem } from "../../../pki/encoding/pem.ts";
import { readRootFile } from "../../../program/files/pem-file.ts";
import { exitCodes, usageError } from "../../terminal/command-line.ts";
import { orOperatorError, repeatedly } from "../../terminal/failures.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { type Anomaly, anomaliesIn, type Watch } from "./anomalies.ts";
import { type Follower, type FollowerOptions, openFollower, synchronize } from "./follower.ts";
import { judgingLog } from "./log-source.ts";

/** The options of `log follow`. */
export interface FollowOptions extends FollowerOptions {
  readonly authorities?: string;
  readonly config?: string;
  readonly identitiesPerNode: number;
  readonly othersPerNode: number;
  readonly staleAfter: number;
  readonly every?: number;
}

/**
 * Reads the new entries of a log, and prints each finding for a person as one line of JSON.
 *
 * @throws OperatorError with an exit code of its own if there are findings.
 */
export async function follow(terminal: Terminal, options: FollowOptions): Promise<void> {
  if (options.dir === undefined) throw usageError("name the copy: --dir");
  const watch = await watchOf(options);
  using follower = await openFollower(terminal, { ...options, json: true });
  if (options.every === undefined) {
    const findings = await followOnce(follower, watch, terminal.clock());
    if (findings === 0) return;
    throw new OperatorError(`findings: ${findings}`, { exitCode: exitCodes.attention });
  }
  // A log that does not answer may answer the next time; one that contradicts itself will not mend.
  await repeatedly(terminal, options.every, () => followOnce(follower, watch, terminal.clock()));
}

async function followOnce(follower: Follower, watch: Watch, now: Date): Promise<number> {
  const { checkpoint, cosigned } = await judgingLog(() => synchronize(follower));
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
  // Other verbs bring the copy up to date as well, and a program may be killed before it prints.
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

/** The certificates in a PEM file, if there is one. */
export async function readAuthorities(
  file: string | undefined,
): Promise<readonly X509Certificate[] | undefined> {
  const pem = await readRootFile(file);
  return pem === undefined
    ? undefined
    : Pem.certificates(pem).map((base64) => new X509Certificate(Buffer.from(base64, "base64")));
}

async function issuersIn(file: string): Promise<Watch["issuers"]> {
  const { ISSUERS } = await orOperatorError(() => readConfigurationFile(file, {}));
  const tables = issuerTables.safeParse(ISSUERS);
  if (tables.success) return tables.data;
  throw new OperatorError(`${file}: its ISSUERS are not as they must be`);
}
