import * as z from "zod/mini";
import type { Caller } from "../../authn/caller.ts";
import { concatBytes } from "../../foundation/octets.ts";
import type { BoundAccount } from "../../kubernetes/pods.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import type { SpiffeId } from "../../pki/spiffe-id.ts";
import { LogError } from "../../tlog/log-error.ts";

const text = z.string().check(z.maxLength(4096));
const object = z.strictObject({ name: text, uid: z.optional(text) });
const instant = z.iso.datetime({ precision: 3 });

/** How a certificate came about. Instants are RFC 3339 in UTC, with milliseconds. */
const circumstances = z.strictObject({
  at: instant,
  /**
   * `own` for a certificate that the CA issued to itself. `authority` for that of a CA which the mesh
   * trusts or which signs: not issued now, but seen in the store for the first time.
   */
  proof: z.enum(["token", "certificate", "forwarded", "own", "authority"]),
  /** The cluster of the token, or of the last token behind the caller's certificate. */
  cluster: z.optional(text),
  issuer: z.optional(text),
  /** The certificate by which the caller proved itself, and the last token behind it. */
  callerSerialNumber: z.optional(text),
  callerAuthority: z.optional(text),
  provedAt: z.optional(instant),
  /** The caller's own SPIFFE ID, if it asked for another one. */
  impersonator: z.optional(text),
  gateway: z.optional(text),
  signer: z.optional(text),
  /** The objects that the token was bound to. */
  pod: z.optional(object),
  node: z.optional(object),
  tokenId: z.optional(text),
});

/**
 * An entry of the issuance log: the whole certificate, and how its caller proved itself. It never holds
 * a token, a hash of one, a CSR or an address.
 */
export interface LogEntry extends Readonly<z.output<typeof circumstances>> {
  /** DER. */
  readonly certificate: Bytes;
}

const entryVersion = 1;

/** The octets of an entry: its version, the length of the certificate, the certificate, JSON. */
export function formatEntry({ certificate, ...rest }: LogEntry): Bytes {
  const head = new Uint8Array(3);
  head[0] = entryVersion;
  new DataView(head.buffer).setUint16(1, certificate.length);
  const json = new TextEncoder().encode(JSON.stringify(rest));
  return concatBytes(head, certificate, json);
}

/** @throws LogError `form` */
export function parseEntry(octets: Uint8Array): LogEntry {
  const view = new DataView(octets.buffer, octets.byteOffset, octets.length);
  if (octets.length < 3 || view.getUint8(0) !== entryVersion) throw malformed();
  const end = 3 + view.getUint16(1);
  if (end > octets.length) throw malformed();
  try {
    const json = new TextDecoder("utf-8", { fatal: true }).decode(octets.subarray(end));
    const certificate = octets.slice(3, end) as Bytes;
    return { certificate, ...circumstances.parse(JSON.parse(json)) };
  } catch (error) {
    throw malformed(error);
  }
}

function malformed(cause?: unknown): LogError {
  return new LogError("form", "not an entry of an issuance log", cause);
}

/** A certificate that was issued to a caller. */
interface Issued {
  readonly at: Date;
  /** DER. */
  readonly certificate: Bytes;
  /** Of the certificate: the caller's own, or the one that a node proxy asked for. */
  readonly spiffeId: SpiffeId;
  readonly signer?: string | undefined;
  /** Whom it is for. The caller's own token counts where nobody else is named. */
  readonly holder?: BoundAccount | undefined;
}

/** The entry of a certificate that a caller asked for. */
export function callerEntry(
  caller: Caller,
  { at, certificate, spiffeId, signer, holder = caller }: Issued,
): LogEntry {
  const { gateway, certificate: shown } = caller;
  const isForItself = spiffeId === caller.spiffeId && holder === caller;
  const issuer = caller.issuer ?? caller.provedBy;
  return {
    certificate,
    at: at.toISOString(),
    proof: proofKindOf(caller),
    cluster: issuer?.cluster,
    issuer: issuer?.name,
    callerSerialNumber: shown?.serialNumber,
    callerAuthority: shown?.authority,
    provedAt: shown && caller.proof.provedAt.toISOString(),
    impersonator: isForItself ? undefined : caller.spiffeId,
    gateway: gateway?.spiffeId,
    signer,
    pod: holder.pod,
    node: holder.node,
    tokenId: holder.tokenId ?? caller.tokenId,
  };
}

/** How a caller has proved who it is: by its token, its certificate, or one that a gateway forwards. */
export function proofKindOf({
  gateway,
  certificate,
}: Caller): "token" | "certificate" | "forwarded" {
  if (gateway) return "forwarded";
  return certificate ? "certificate" : "token";
}
