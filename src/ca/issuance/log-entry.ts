import * as z from "zod/mini";
import type { Caller } from "../../authn/caller.ts";
import { concatBytes } from "../../foundation/octets.ts";
import type { BoundAccount } from "../../kubernetes/pods.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import type { SpiffeId } from "../../pki/spiffe-id.ts";
import { LogError } from "../../tlog/log-error.ts";
import { effects } from "../policy/policy.ts";

const text = z.string().check(z.maxLength(4096));
const object = z.strictObject({ name: text, uid: z.optional(text) });
const instant = z.iso.datetime({ precision: 3 });

/** How a certificate or a token came about. Instants are RFC 3339 in UTC, with milliseconds. */
const circumstances = {
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
};

/** The fields that version 2 adds. */
const decision = {
  /** The rule that decided, and the SHA-256 in hexadecimal of the policy that has it. */
  rule: z.optional(text),
  policy: z.optional(z.string().check(z.regex(/^[0-9a-f]{64}$/))),
  /** The rule in shadow that would have decided, and what it would have changed. */
  shadowRule: z.optional(text),
  shadowEffect: z.optional(z.enum(effects)),
  /** The life that the caller asked for, in seconds; 0 where it asked for none. */
  requestedSeconds: z.optional(z.int().check(z.nonnegative())),
  /** The life that counts as asked for in its place: the default, or what a rule made of it. */
  grantedSeconds: z.optional(z.int().check(z.nonnegative())),
  /** Whom it is for, `<namespace>/<account>`, where the certificate does not say. */
  account: z.optional(text),
  /** The signer that the caller asked for, where a rule has chosen another one; empty for none. */
  certSigner: z.optional(text),
  /** `unnamed` where a signer of a cluster did not say whom it is for. */
  holder: z.optional(z.literal("unnamed")),
  /** `assumed` where a certificate of istiod does not say which of several issuers has vouched for it. */
  vouched: z.optional(z.literal("assumed")),
};

/** What version 2 says of the decision. */
export type Evidence = { readonly [K in keyof typeof decision]?: CertificateEntry[K] };

/** A JWT-SVID without its signature: nobody can make the token of it. */
const issuedToken = z.strictObject({
  spiffeId: text,
  audiences: z.array(text).check(z.minLength(1), z.maxLength(8)),
  expiresAt: instant,
  /** In the form of a serial number. */
  jti: z.string().check(z.regex(/^01[0-9a-f]{32}$/)),
  /** The `kid` and the `alg` of its header. */
  key: text,
  algorithm: text,
});

const firstForm = z.strictObject(circumstances);
const certificateForm = z.strictObject({
  kind: z.literal("certificate"),
  ...circumstances,
  ...decision,
});
const tokenForm = z.strictObject({
  kind: z.literal("token"),
  ...circumstances,
  ...decision,
  token: issuedToken,
});
const secondForm = z.union([certificateForm, tokenForm]);

/** The entry of a certificate: all of it, and how its caller proved itself. */
export interface CertificateEntry extends Readonly<z.output<typeof certificateForm>> {
  /** DER. */
  readonly certificate: Bytes;
}

/** The entry of a JWT-SVID. */
export type TokenEntry = Readonly<z.output<typeof tokenForm>>;

/**
 * An entry of the issuance log. It never holds a credential, a hash of one, a token that was issued, a CSR or
 * an address.
 */
export type LogEntry = CertificateEntry | TokenEntry;

/**
 * The octets of an entry: its version, the length of the certificate, the certificate, JSON. A token has a
 * certificate of no length.
 *
 * An entry that needs nothing of version 2 is written in version 1, which older readers know.
 */
export function formatEntry(entry: LogEntry): Bytes {
  const { certificate, ...rest } = entry.kind === "token" ? { ...entry, certificate: none } : entry;
  const { kind, ...first } = rest;
  const isFirst =
    kind === "certificate" && Object.keys(decision).every((name) => !hasField(rest, name));
  const head = new Uint8Array(3);
  head[0] = isFirst ? 1 : 2;
  new DataView(head.buffer).setUint16(1, certificate.length);
  const json = new TextEncoder().encode(JSON.stringify(isFirst ? first : rest));
  return concatBytes(head, certificate, json);
}

const none: Bytes = new Uint8Array();

const hasField = (entry: object, name: string): boolean =>
  (entry as Readonly<Record<string, unknown>>)[name] !== undefined;

/** @throws LogError `form` */
export function parseEntry(octets: Uint8Array): LogEntry {
  const view = new DataView(octets.buffer, octets.byteOffset, octets.length);
  if (octets.length < 3 || view.getUint8(0) < 1 || view.getUint8(0) > 2) throw malformed();
  const end = 3 + view.getUint16(1);
  if (end > octets.length) throw malformed();
  try {
    const json = new TextDecoder("utf-8", { fatal: true }).decode(octets.subarray(end));
    const certificate = octets.slice(3, end) as Bytes;
    const rest =
      view.getUint8(0) === 1 ? firstOf(JSON.parse(json)) : secondForm.parse(JSON.parse(json));
    if (rest.kind === "certificate") return { certificate, ...rest };
    if (certificate.length > 0) throw malformed();
    return rest;
  } catch (error) {
    throw malformed(error);
  }
}

const firstOf = (json: unknown): z.output<typeof certificateForm> => ({
  kind: "certificate",
  ...firstForm.parse(json),
});

/** The DER of an entry's certificate; `undefined` of a token's. */
export const certificateOf = (entry: LogEntry): Bytes | undefined =>
  entry.kind === "token" ? undefined : entry.certificate;

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
  readonly evidence?: Evidence;
}

/** The entry of a certificate that a caller asked for. */
export function callerEntry(caller: Caller, issued: Issued): CertificateEntry {
  const { certificate, evidence } = issued;
  return { kind: "certificate", certificate, ...circumstancesOf(caller, issued), ...evidence };
}

/** How what a caller asked for came about. */
export function circumstancesOf(
  caller: Caller,
  { at, spiffeId, signer, holder }: Omit<Issued, "certificate">,
): Omit<CertificateEntry, "kind" | "certificate"> {
  const { gateway, certificate: shown } = caller;
  const { pod, node, tokenId = caller.tokenId } = holder ?? caller;
  const isForItself = spiffeId === caller.spiffeId && holder === caller;
  const issuer = caller.issuer ?? caller.provedBy;
  return {
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
    pod,
    node,
    tokenId,
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
