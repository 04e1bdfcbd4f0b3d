import { type LogEntry, parseEntry } from "../../../ca/issuance/log-entry.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { type Bytes, bytesEqual } from "../../../pki/encoding/bytes.ts";
import { parsePem } from "../../../pki/encoding/pem.ts";
import { mayBeSerialNumber, shownSerialNumber } from "../../../pki/encoding/serial-number.ts";
import { readSmallFile } from "../../../program/files/small-file.ts";
import { readTile } from "../../../tlog/extend.ts";
import { LogError } from "../../../tlog/log-error.ts";
import { leafHash } from "../../../tlog/merkle.ts";
import { acceptCheckpoint, type Policy } from "../../../tlog/note/policy.ts";
import {
  formatLogProof,
  parseLogProof,
  proveInclusion,
  verifyInclusion,
} from "../../../tlog/proof.ts";
import type { Follower } from "./follower.ts";
import type { IndexedEntry } from "./follower-index.ts";
import { refuseAbsent } from "./judging-log.ts";
import { loggedCertificate } from "./logged-certificate.ts";

const maximumOctets = 256 * 1024;

/** The first certificate of a PEM file. @throws OperatorError */
export async function readLeaf(file: string): Promise<Bytes> {
  const text = await readSmallFile(file, maximumOctets);
  const end = text.indexOf("-----END CERTIFICATE-----");
  const der =
    end < 0
      ? undefined
      : parsePem(`${text.slice(0, end)}-----END CERTIFICATE-----`, ["CERTIFICATE"]);
  if (der) return der;
  throw new OperatorError(`${file} does not begin with a certificate in PEM`);
}

/** The entry of a certificate, byte for byte; `undefined` if the copy has none. */
export function entryOf({ index }: Follower, certificate: Bytes): IndexedEntry | undefined {
  const { serial } = loggedCertificate({ certificate, at: "", proof: "own" });
  return index
    .search({ serial }, 100)
    .find(({ octets }) => bytesEqual(parseEntry(octets).certificate, certificate));
}

/** The entry of a serial number, or of the certificate in a file. @throws OperatorError */
export async function chosenEntry(follower: Follower, choice: string): Promise<IndexedEntry> {
  const entry = mayBeSerialNumber(choice)
    ? follower.index.search({ serial: shownSerialNumber(choice) }, 1)[0]
    : entryOf(follower, await readLeaf(choice));
  return entry ?? refuseAbsent(`${choice} is not in the log`);
}

/** The proof of an entry as a file. The entry itself is in its extra line, so it needs no connection. */
export async function proveEntry({ index }: Follower, entry: IndexedEntry): Promise<string> {
  const state = index.state();
  if (!state) throw new Error("a copy without a state");
  const hashes = await proveInclusion(state.frontier.size, entry.idx, (tile) =>
    readTile(tile, async (path) => index.tile(path)),
  );
  const { checkpoint } = state;
  return formatLogProof({ index: entry.idx, hashes, checkpoint, extra: entry.octets });
}

/** A verified proof. */
export interface VerifiedProof {
  readonly index: number;
  readonly entry: LogEntry;
  readonly origin: string;
}

/**
 * Verifies that a log of the policy has the certificate, without a connection.
 *
 * @throws LogError
 */
export async function verifyProof(
  text: string,
  certificate: Bytes,
  policy: Policy,
): Promise<VerifiedProof> {
  const { index, hashes, checkpoint: note, extra } = parseLogProof(text);
  if (!extra) throw new LogError("form", "the proof lacks the entry that `prove` adds");
  const { checkpoint } = await acceptCheckpoint(note, policy);
  verifyInclusion(checkpoint, index, leafHash(extra), hashes);
  const entry = parseEntry(extra);
  if (!bytesEqual(entry.certificate, certificate)) {
    throw new LogError("inclusion", "the proof is another certificate's");
  }
  return { index, entry, origin: checkpoint.origin };
}
