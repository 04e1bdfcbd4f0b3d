import { CertificateVerifier } from "../../../authn/certificate-verifier.ts";
import { type CertificateEntry, LogEntry } from "../../../ca/issuance/log-entry.ts";
import { RevocationContent } from "../../../custody/record-kinds.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { nodeCryptoProvider } from "../../../node/node-crypto-provider.ts";
import type { SigningAuthority } from "../../../pki/authority/signing-authority.ts";
import { Bytes, Hex } from "../../../pki/encoding/bytes.ts";
import { DerError } from "../../../pki/encoding/der-reader.ts";
import { SerialNumber } from "../../../pki/encoding/serial-number.ts";
import { Certificate } from "../../../pki/x509/certificate.ts";
import { isSignedWith } from "../../../pki/x509/certificate-signature.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { findByIdPrefix } from "../authority/requirements.ts";
import {
  foreignSerialNumber,
  type IndexedEntry,
  namesOf,
  type SearchFields,
} from "../log/entry.ts";
import { type Follower, type FollowerOptions, openFollower, synchronize } from "../log/follower.ts";
import { requireCluster, throwNeedsAttention } from "../log/log-source.ts";
import { readLeaf } from "../log/proofs.ts";

/** A certificate that an operator may want to revoke. */
export interface Candidate extends Pick<SearchFields, "cluster" | "node"> {
  /** The id of the authority that signed it. */
  readonly authority: string;
  /** The content octets of the DER integer, in hexadecimal. */
  readonly serialNumber: string;
  readonly notAfter: Date;
  /** The SPIFFE ID or DNS names; `undefined` if only the serial number is known. */
  readonly name?: string | undefined;
  readonly issuedAt?: Date | undefined;
}

/**
 * Reads the certificate in a PEM file.
 * @throws OperatorError if it is unreadable, an authority, or signed by none of these authorities.
 */
export async function candidateInFile(
  file: string,
  authorities: readonly SigningAuthority[],
): Promise<Candidate> {
  const der = await readLeaf(file);
  const certificate = parsed(file, der);
  const own = authorities.find((each) => Bytes.equal(each.certificate.der, der));
  if (own) {
    throw new OperatorError(
      `${file} is an authority: \`rampart authority taint ${own.id} --root with-last-leaf\` takes its root out of the trust bundle`,
    );
  }
  const signer = await signerOf(certificate, authorities);
  if (!signer) {
    throw new OperatorError(
      `${file}: none of the authorities in the trust bundle has signed this certificate`,
    );
  }
  const { spiffeId } = namesOf({ certificate: der });
  return candidateOf(certificate, signer, { name: spiffeId });
}

/**
 * Makes a candidate of which only the serial number is known.
 * @throws OperatorError for a malformed number, one that its authority cannot have issued, and if it is unclear which
 *   authority signed.
 */
export function candidateOfSerial(
  text: string,
  authorities: readonly SigningAuthority[],
  { authority, until }: { readonly authority?: string | undefined; readonly until: Date },
): Candidate {
  const serialNumber = SerialNumber.content(text);
  if (!RevocationContent.isSerialNumber(serialNumber)) {
    throw new OperatorError(`${text} is no serial number: it is 0, or has more than 20 octets`);
  }
  const [first, ...others] = authorities;
  if (authority === undefined && (!first || others.length > 0)) {
    throw new OperatorError(
      `give the certificate, a log (--url or --dir), or --authority: ${authorities.length} authorities may have signed ${text}`,
    );
  }
  const signer =
    authority === undefined ? first : findByIdPrefix(authorities, authority, "authority");
  // An imported authority may have signed before its import, with serial numbers of another form.
  const own = Hex.format(signer?.certificate.toBeSigned.serialNumber ?? new Uint8Array());
  const foreign = foreignSerialNumber(own) === undefined && foreignSerialNumber(text);
  if (foreign) throw new OperatorError(`${text}: ${foreign}`);
  return { authority: signer?.id ?? "", serialNumber, notAfter: until };
}

/** Makes a candidate of a certificate and its signer. */
function candidateOf(
  { toBeSigned }: Certificate,
  signer: SigningAuthority,
  others: Partial<Candidate>,
): Candidate {
  return {
    authority: signer.id,
    serialNumber: Hex.format(toBeSigned.serialNumber),
    notAfter: toBeSigned.validity.notAfter,
    ...others,
  };
}

/** Finds the authority that has signed a certificate. */
async function signerOf(
  certificate: Certificate,
  authorities: readonly SigningAuthority[],
): Promise<SigningAuthority | undefined> {
  for (const authority of authorities) {
    if (!CertificateVerifier.namesAuthority(certificate, authority)) continue;
    if (await isSignedWith(certificate, authority.publicKey, nodeCryptoProvider)) return authority;
  }
  return undefined;
}

function parsed(file: string, der: Uint8Array<ArrayBuffer>): Certificate {
  try {
    return Certificate.parse(der);
  } catch (error) {
    if (!(error instanceof DerError)) throw error;
    throw new OperatorError(`${file} is not a certificate: ${error.message}`);
  }
}

/** Which entries of a log are chosen. */
interface LogChoice {
  readonly serials: readonly string[];
  /** Serial numbers of certificates in files; with `withRenewals`, their renewals are chosen. */
  readonly shown: readonly string[];
  /** The search; `undefined` if only serial numbers choose. */
  readonly fields: SearchFields | undefined;
  /** Whether to choose also each certificate that was issued to a caller who showed a chosen one. */
  readonly withRenewals: boolean;
}

/**
 * The chosen certificates of authorities in the trust bundle, and how many others (`foreign`) and JWT-SVIDs were
 * chosen.
 */
export interface LoggedCandidates {
  readonly candidates: readonly Candidate[];
  readonly foreign: number;
  readonly tokens: number;
}

/** The most entries that a search chooses; a store has room for fewer revoked certificates. */
const maximumEntries = 1_000_000;

/**
 * Follows a log and all its shards, and finds the chosen certificates.
 * @throws OperatorError for a serial number or cluster that no shard has; LogError, FetchError if a shard cannot be
 *   followed.
 */
export async function loggedCandidates(
  terminal: Terminal,
  options: FollowerOptions,
  choice: LogChoice,
  authorities: readonly SigningAuthority[],
): Promise<LoggedCandidates> {
  using shards = await openShards(terminal, options);
  const chosen = new Map<string, IndexedEntry>();
  const add = (entry: IndexedEntry): void => void chosen.set(entry.serial, entry);
  const indexes = shards.followers.map(({ index }) => index);
  requireCluster(indexes, choice.fields?.cluster);
  for (const index of indexes) {
    if (choice.fields) index.search(choice.fields, maximumEntries).forEach(add);
    for (const serial of choice.serials) {
      index.search({ serial: SerialNumber.shown(serial) }, 1).forEach(add);
    }
  }
  for (const serial of choice.serials) {
    if (chosen.has(SerialNumber.shown(serial))) continue;
    throwNeedsAttention(`${serial} is not in the log`);
  }
  if (choice.withRenewals) addRenewals(shards.followers, chosen, choice.shown);
  return judged([...chosen.values()], authorities);
}

/** Adds the renewals of chosen certificates, and the renewals of those. A renewal may be in another shard. */
function addRenewals(
  followers: readonly Follower[],
  chosen: Map<string, IndexedEntry>,
  shown: readonly string[],
): void {
  const roots = new Set(shown.map(SerialNumber.shown));
  for (let before = -1; before < chosen.size; ) {
    before = chosen.size;
    for (const { index } of followers) {
      for (const entry of index.from(0)) {
        const { callerSerialNumber } = LogEntry.parse(entry.octets);
        if (callerSerialNumber === undefined || chosen.has(entry.serial)) continue;
        const parent = SerialNumber.shown(callerSerialNumber);
        if (roots.has(parent) || chosen.has(parent)) chosen.set(entry.serial, entry);
      }
    }
  }
}

async function judged(
  entries: readonly IndexedEntry[],
  authorities: readonly SigningAuthority[],
): Promise<LoggedCandidates> {
  const candidates: Candidate[] = [];
  let [foreign, tokens] = [0, 0];
  for (const indexed of entries) {
    const entry = LogEntry.parse(indexed.octets);
    if (entry.kind === "token") tokens++;
    if (entry.kind === "token" || entry.proof === "authority") continue;
    const found = await candidateIn(entry, indexed, authorities);
    if (found) candidates.push(found);
    else foreign++;
  }
  return { candidates, foreign, tokens };
}

async function candidateIn(
  entry: CertificateEntry,
  { spiffeId, cluster, node }: IndexedEntry,
  authorities: readonly SigningAuthority[],
): Promise<Candidate | undefined> {
  const certificate = Certificate.parse(entry.certificate);
  const signer = await signerOf(certificate, authorities);
  if (!signer) return undefined;
  return candidateOf(certificate, signer, {
    name: spiffeId,
    cluster: cluster ?? undefined,
    node: node ?? undefined,
    issuedAt: new Date(entry.at),
  });
}

/** Opens the chosen log, and copies every other shard of the same CA into memory. */
async function openShards(terminal: Terminal, options: FollowerOptions) {
  const followers: Follower[] = [];
  const close = (): void => {
    for (const follower of followers) follower[Symbol.dispose]();
  };
  try {
    const first = await openFollower(terminal, options);
    followers.push(first);
    await synchronize(first);
    const { ca, policy } = options;
    for (const url of (await first.source?.otherShards()) ?? []) {
      const other = await openFollower(terminal, {
        url,
        ...(ca && { ca }),
        ...(policy && { policy }),
      });
      followers.push(other);
      await synchronize(other);
    }
    return { followers, [Symbol.dispose]: close };
  } catch (error) {
    close();
    throw error;
  }
}
