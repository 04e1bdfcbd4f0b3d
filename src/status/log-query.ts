import { create } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import type { LogPosition } from "../ca/issuance/issuance-log.ts";
import { type LogEntry as IssuedEntry, parseEntry } from "../ca/issuance/log-entry.ts";
import { type LogEntry, LogEntrySchema } from "../gen/rampart/status/v1/status_pb.ts";
import { type Bytes, toHex } from "../pki/encoding/bytes.ts";
import { DerError, Tag } from "../pki/encoding/der-reader.ts";
import { serialDigits, shownSerialNumber } from "../pki/encoding/serial-number.ts";
import { type Certificate, parseCertificate } from "../pki/x509/certificate.ts";
import { displayedName } from "../pki/x509/distinguished-name.ts";
import { LogError } from "../tlog/log-error.ts";

/** A text to look for, in lower case, and as a serial number if it may be one. */
export interface Query {
  readonly text: string;
  readonly serial: string | undefined;
}

const maximumLength = 256;

/** @returns `undefined` for an empty text, which every entry matches. @throws ConnectError */
export function parseQuery(input: string): Query | undefined {
  const text = input.trim().toLowerCase();
  if (text === "") return undefined;
  if (text.length > maximumLength) {
    throw new ConnectError(`a query has at most ${maximumLength} characters`, Code.InvalidArgument);
  }
  // Six digits as they are shown, of which the first is a zero in every number that Rampart chooses.
  const digits = serialDigits(text);
  return { text, serial: /^[0-9a-f]{5,}$/.test(digits) ? digits : undefined };
}

const latin1 = new TextDecoder("latin1");

/** Whether the octets of an entry contain the text. It spares parsing most of the others. */
export function mayMatch(octets: Bytes, { text, serial }: Query): boolean {
  return serial !== undefined || latin1.decode(octets).toLowerCase().includes(text);
}

/** The entry as an operator sees it; `undefined` if it does not match, or cannot be read. */
export function foundEntry(
  octets: Bytes,
  { origin, index }: LogPosition,
  query: Query | undefined,
): LogEntry | undefined {
  const read = readEntry(octets);
  if (!read) return undefined;
  const { issued, name } = read;
  const { validity, serialNumber } = read.certificate.toBeSigned;
  const entry = create(LogEntrySchema, {
    origin,
    index: BigInt(index),
    at: timestampFromDate(new Date(issued.at)),
    name,
    serialNumber: shownSerialNumber(toHex(serialNumber)),
    notAfter: timestampFromDate(validity.notAfter),
    cluster: issued.cluster ?? "",
    node: issued.node?.name ?? "",
    pod: issued.pod?.name ?? "",
    proof: issued.proof,
  });
  return !query || matches(entry, query) ? entry : undefined;
}

function matches(entry: LogEntry, { text, serial }: Query): boolean {
  const { name, cluster, node, pod, serialNumber } = entry;
  if (serial !== undefined && serialNumber.includes(serial)) return true;
  return [name, cluster, node, pod].some((field) => field.toLowerCase().includes(text));
}

interface ReadEntry {
  readonly issued: IssuedEntry;
  readonly certificate: Certificate;
  readonly name: string;
}

/** The storage is not trusted: an entry that is none is left out. */
function readEntry(octets: Bytes): ReadEntry | undefined {
  try {
    const issued = parseEntry(octets);
    const certificate = parseCertificate(issued.certificate);
    const name = namesOf(certificate) || displayedName(certificate.toBeSigned.subject);
    return { issued, certificate, name };
  } catch (error) {
    if (error instanceof LogError || error instanceof DerError) return undefined;
    throw error;
  }
}

const dnsName = Tag.contextPrimitive(2);
const uriName = Tag.contextPrimitive(6);

/** The URI and the DNS names of a certificate, joined; empty if it has neither. */
function namesOf({ toBeSigned }: Certificate): string {
  const names = toBeSigned.extensions.subjectAltName?.value.fork();
  if (!names?.nextIs(Tag.sequence)) return "";
  const list = names.enter(Tag.sequence);
  const found: string[] = [];
  while (list.nextIs(dnsName) || list.nextIs(uriName)) {
    found.push(new TextDecoder().decode(list.content(list.nextIs(uriName) ? uriName : dnsName)));
  }
  return found.join(", ");
}
