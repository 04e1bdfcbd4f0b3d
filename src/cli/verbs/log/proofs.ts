import { X509Certificate } from "node:crypto";
import { LogEntry } from "../../../ca/issuance/log-entry.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { Base64 } from "../../../pki/encoding/base64.ts";
import { Bytes } from "../../../pki/encoding/bytes.ts";
import { Pem } from "../../../pki/encoding/pem.ts";
import { SerialNumber } from "../../../pki/encoding/serial-number.ts";
import { PemFile } from "../../../program/files/pem-file.ts";
import { SmallFile } from "../../../program/files/small-file.ts";
import { ObjectReader } from "../../../tlog/extend.ts";
import { LogError } from "../../../tlog/log-error.ts";
import { Hash } from "../../../tlog/merkle.ts";
import { LogPolicy } from "../../../tlog/note/policy.ts";
import { LogProof } from "../../../tlog/proof.ts";
import { usageError } from "../../terminal/command-line.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { isSignedByAny } from "./anomalies.ts";
import { entryAsJson, formatEntries, type IndexedEntry, namesOf } from "./entry.ts";
import { readAuthorities } from "./follow.ts";
import { type Follower, type FollowerOptions, openFollower, synchronize } from "./follower.ts";
import { chosenPolicy, throwNeedsAttention } from "./log-source.ts";

/**
 * Reads the first certificate of a PEM file, DER. It is not parsed.
 * @throws OperatorError if the file is unreadable or has none.
 */
export async function readLeaf(file: string): Promise<Bytes> {
  const [first = ""] = Pem.certificates(await PemFile.read(file));
  const der = Base64.parse(first);
  if (der?.length) return der;
  throw new OperatorError(`${file} does not begin with a certificate in PEM`);
}

/** Finds the entry of exactly this certificate; `undefined` if the copy has none. */
function entryOf({ index }: Follower, certificate: Bytes): IndexedEntry | undefined {
  const { serial } = namesOf({ certificate });
  return index
    .search({ serial }, 100)
    .find(({ octets }) => isOf(LogEntry.parse(octets), certificate));
}

const isOf = (entry: LogEntry, certificate: Bytes): boolean =>
  Bytes.equal(LogEntry.certificateOf(entry) ?? new Uint8Array(), certificate);

/**
 * Finds the entry of a serial number, or of the certificate in a file.
 * @throws OperatorError with the exit code `attention` if the copy has none.
 */
export async function chosenEntry(follower: Follower, choice: string): Promise<IndexedEntry> {
  const entry = SerialNumber.mayBe(choice)
    ? follower.index.search({ serial: SerialNumber.shown(SerialNumber.typed(choice)) }, 1)[0]
    : entryOf(follower, await readLeaf(choice));
  return entry ?? throwNeedsAttention(`${choice} is not in the log`);
}

/**
 * Makes the proof of an entry, as the text of a file. Its extra line has the entry, so that it is verified without a
 * connection. It is made from the copy alone.
 * @throws LogError if the copy lacks a tile.
 */
export async function proveEntry({ index }: Follower, entry: IndexedEntry): Promise<string> {
  const state = index.state();
  if (!state) throw new Error("a copy without a state");
  const hashes = await LogProof.proveInclusion(state.frontier.size, entry.idx, (tile) =>
    ObjectReader.readTile(tile, async (path) => index.tile(path)),
  );
  const { checkpoint } = state;
  return LogProof.format({ index: entry.idx, hashes, checkpoint, extra: entry.octets });
}

/**
 * Verifies a proof that a log of the policy has the certificate, without a connection.
 * @throws LogError; OperatorError for the proof of another certificate.
 */
async function verifyProof(text: string, certificate: Bytes, policy: LogPolicy) {
  const { index, hashes, checkpoint: note, extra } = LogProof.parse(text);
  if (!extra) throw new LogError("form", "the proof lacks the entry that `prove` adds");
  const { checkpoint } = await LogPolicy.accept(note, policy);
  LogProof.verifyInclusion(checkpoint, index, Hash.ofLeaf(extra), hashes);
  const entry = LogEntry.parse(extra);
  if (!isOf(entry, certificate)) {
    throw new OperatorError("the proof is another certificate's: it says nothing about this one");
  }
  return { index, entry, octets: extra, origin: checkpoint.origin };
}

/** The options of `log verify`. */
export interface VerifyOptions extends FollowerOptions {
  readonly authorities?: string;
}

const maximumProofOctets = 512 * 1024;

/**
 * Prints whether a log has a certificate: by a proof, or by a search.
 * @throws OperatorError with the exit code `attention` if a search finds none, with `usage` for a proof without a key or
 *   policy, and with `failed` for the proof of another certificate; LogError for a proof that does not hold.
 */
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
  const proof = await SmallFile.read(proofFile, maximumProofOctets);
  const verified = await verifyProof(proof, certificate, policy);
  const { index, origin, entry } = verified;
  if (options.dir !== undefined) await requireInCopy(terminal, options, verified);
  const found = `${origin} has it at index ${index}, issued at ${entry.at}`;
  terminal.print(options.json ? JSON.stringify({ origin, index, issuedAt: entry.at }) : found);
}

/**
 * Requires that the copy has the proved entry, because the proof may be of another history.
 * @throws LogError otherwise.
 */
async function requireInCopy(
  terminal: Terminal,
  options: VerifyOptions,
  { index, octets, origin }: Awaited<ReturnType<typeof verifyProof>>,
): Promise<void> {
  using follower = await openFollower(terminal, options);
  const { checkpoint } = await synchronize(follower);
  if (checkpoint.origin !== origin) {
    throw new LogError("origin", `the copy is of ${checkpoint.origin}, not of ${origin}`);
  }
  const [held] = follower.index.all<IndexedEntry>("SELECT * FROM entry WHERE idx = ?", index);
  if (!held || Bytes.equal(held.octets, octets)) return;
  const detail = `the log does not extend the copy, which has another entry at index ${index}`;
  throw new LogError("consistency", detail);
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
    ? ", but an authority's key signed it.\nUnless it is younger than LOG_INTERVAL, that KEY IS STOLEN: `rampart docs incident`."
    : ", and no authority that is known here signed it: it is not of this CA.";
  throwNeedsAttention(`${absent}${verdict}${await otherShards(follower)}`);
}

async function otherShards({ source }: Follower): Promise<string> {
  const others = (await source?.otherShards()) ?? [];
  return others.length > 0 ? `\nAsk the other shards first: ${others.join(", ")}` : "";
}
