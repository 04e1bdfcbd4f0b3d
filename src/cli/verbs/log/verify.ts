import { X509Certificate } from "node:crypto";
import type { Bytes } from "../../../pki/encoding/bytes.ts";
import { readSmallFile } from "../../../program/files/small-file.ts";
import { usageError } from "../../terminal/exit-codes.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { isSignedByAny } from "./findings.ts";
import { readAuthorities } from "./follow.ts";
import { type Follower, type FollowerOptions, openFollower, synchronize } from "./follower.ts";
import { refuseAbsent } from "./judging-log.ts";
import { chosenPolicy } from "./log-source.ts";
import { entryAsJson, formatEntries } from "./printable-entry.ts";
import { entryOf, readLeaf, verifyProof } from "./proofs.ts";

/** The options of `rampart log verify`. */
export interface VerifyOptions extends FollowerOptions {
  readonly authorities?: string;
}

const maximumProofOctets = 512 * 1024;

/** Tells whether a log has a certificate: by a proof, or by looking it up. */
export async function verify(
  terminal: Terminal,
  file: string,
  proofFile: string | undefined,
  options: VerifyOptions,
): Promise<void> {
  const certificate = await readLeaf(file);
  if (proofFile === undefined) return lookUp(terminal, file, certificate, options);
  const policy = await chosenPolicy(options);
  if (!policy)
    throw usageError(
      "a proof is worth the key of its log: give --key, which `/log/logs.json` names, or --policy",
    );
  const proof = await readSmallFile(proofFile, maximumProofOctets);
  const { index, origin, entry } = await verifyProof(proof, certificate, policy);
  const told = `${origin} has it at index ${index}, issued at ${entry.at}`;
  terminal.print(options.json ? JSON.stringify({ origin, index, issuedAt: entry.at }) : told);
}

async function lookUp(
  terminal: Terminal,
  file: string,
  certificate: Bytes,
  options: VerifyOptions,
): Promise<void> {
  const authorities = await readAuthorities(options.authorities);
  using follower = await openFollower(terminal, options);
  const { checkpoint } = await synchronize(follower);
  const entry = entryOf(follower, certificate);
  if (entry) {
    terminal.print(options.json ? entryAsJson(entry) : formatEntries(terminal, [entry]));
    return;
  }
  const absent = `${file} is not among the ${checkpoint.size} entries of ${checkpoint.origin}`;
  const known = authorities ?? follower.index.authorities().map((each) => each.certificate);
  const verdict = isSignedByAny(new X509Certificate(certificate), known)
    ? ", but an authority's key signed it.\nUnless it is younger than LOG_INTERVAL, that KEY IS STOLEN: docs/how-to/incident.md."
    : ", and no authority that is known here signed it: it is not of this CA.";
  refuseAbsent(`${absent}${verdict}${await otherShards(follower)}`);
}

async function otherShards({ source }: Follower): Promise<string> {
  const others = (await source?.otherShards()) ?? [];
  return others.length > 0 ? `\nAsk the other shards first: ${others.join(", ")}` : "";
}
