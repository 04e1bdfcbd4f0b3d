import * as z from "zod/mini";
import { parseJson } from "../../foundation/json.ts";
import { concatBytes } from "../../foundation/octets.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
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
  /** The certificate that authenticated the caller, and the last token behind it. */
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
  /** The lifetime that the caller requested, in seconds; 0 if it requested none. */
  requestedSeconds: z.optional(z.int().check(z.nonnegative())),
  /** The lifetime that replaces the requested one: the default, or that of a rule. */
  grantedSeconds: z.optional(z.int().check(z.nonnegative())),
  /** Whom the certificate is for, `<namespace>/<account>`, if the certificate does not show it. */
  account: z.optional(text),
  /** The signer that the caller asked for, where a rule has chosen another one; empty for none. */
  certSigner: z.optional(text),
  /** `unnamed` if a signer of a cluster did not say whom the certificate is for. */
  holder: z.optional(z.literal("unnamed")),
  /**
   * `assumed` if the caller has a certificate of istiod, which does not say which of several issuers authenticated
   * its holder.
   */
  vouched: z.optional(z.literal("assumed")),
};

/** The field that version 3 adds: the subject and claims of a token that is not of a ServiceAccount. */
const claimed = {
  /**
   * `unknown` if the caller has a certificate that was obtained with such a token, because the certificate does not
   * contain it.
   */
  tokenSubject: z.optional(
    z.union([
      z.strictObject({
        sub: text,
        entry: text,
        claims: z.record(text, z.union([text, z.readonly(z.array(text))])),
      }),
      z.literal("unknown"),
    ]),
  ),
};

/** The fields about the decision that version 2 adds to an entry. */
export type Evidence = { readonly [K in keyof typeof decision]?: CertificateEntry[K] };

/** A JWT-SVID without its signature, so that the log contains no usable token. */
const issuedToken = z.strictObject({
  spiffeId: text,
  audiences: z.array(text).check(z.minLength(1), z.maxLength(8)),
  expiresAt: instant,
  /** The token's id, which has the form of a serial number. */
  jti: z.string().check(z.regex(/^01[0-9a-f]{32}$/)),
  /** The `kid` and the `alg` of its header. */
  key: text,
  algorithm: text,
});

const firstSchema = z.strictObject(circumstances);
const certificateSchema = z.strictObject({
  kind: z.literal("certificate"),
  ...circumstances,
  ...decision,
  ...claimed,
});
const tokenSchema = z.strictObject({
  kind: z.literal("token"),
  ...circumstances,
  ...decision,
  ...claimed,
  token: issuedToken,
});
const laterSchema = z.union([certificateSchema, tokenSchema]);

/** The entry of a certificate: the whole certificate, and how its caller was authenticated. */
export interface CertificateEntry extends Readonly<z.output<typeof certificateSchema>> {
  /** DER. */
  readonly certificate: Bytes;
}

/** The entry of a JWT-SVID. */
export type TokenEntry = Readonly<z.output<typeof tokenSchema>>;

/**
 * An entry of the issuance log. It never contains a credential, a hash of one, a token that was issued, a CSR or
 * an address.
 */
export type LogEntry = CertificateEntry | TokenEntry;

/** Formats and parses entries. */
export const LogEntry = {
  /**
   * The octets of an entry: its version, the length of the certificate, the certificate, JSON. In the entry of a
   * token the certificate is empty.
   *
   * An entry is written in the lowest version that has its fields, which older readers know.
   */
  format(entry: LogEntry): Bytes {
    const certificate = LogEntry.certificateOf(entry) ?? none;
    const isFirst =
      entry.kind === "certificate" && laterFields.every((name) => !hasField(entry, name));
    const head = new Uint8Array(3);
    head[0] = isFirst ? 1 : laterVersion(entry);
    new DataView(head.buffer).setUint16(1, certificate.length);
    const fields = { ...entry, certificate: undefined, ...(isFirst && { kind: undefined }) };
    return concatBytes(head, certificate, new TextEncoder().encode(JSON.stringify(fields)));
  },

  /** Parses an entry of the issuance log, of any version from 1 to 3. @throws LogError `form` if it is malformed. */
  parse(octets: Uint8Array): LogEntry {
    const view = new DataView(octets.buffer, octets.byteOffset, octets.length);
    const version = octets.length < 3 ? 0 : view.getUint8(0);
    if (version < 1 || version > 3) throw malformed();
    const end = 3 + view.getUint16(1);
    if (end > octets.length) throw malformed();
    try {
      const json = parseJson(octets.subarray(end));
      const certificate = octets.slice(3, end) as Bytes;
      const rest = version === 1 ? firstOf(json) : laterSchema.parse(json);
      if (version !== 1 && version !== laterVersion(rest)) throw malformed();
      if (rest.kind === "certificate") return { certificate, ...rest };
      if (certificate.length > 0) throw malformed();
      return rest;
    } catch (error) {
      throw malformed(error);
    }
  },

  /** The DER of an entry's certificate; `undefined` for the entry of a token. */
  certificateOf: (entry: LogEntry): Bytes | undefined =>
    entry.kind === "token" ? undefined : entry.certificate,
};

const none: Bytes = new Uint8Array();

const laterFields = Object.keys({ ...decision, ...claimed });

const laterVersion = ({ tokenSubject }: Pick<LogEntry, "tokenSubject">): 2 | 3 =>
  tokenSubject === undefined ? 2 : 3;

const hasField = (entry: object, name: string): boolean =>
  (entry as Readonly<Record<string, unknown>>)[name] !== undefined;

const firstOf = (json: unknown): z.output<typeof certificateSchema> => ({
  kind: "certificate",
  ...firstSchema.parse(json),
});

function malformed(cause?: unknown): LogError {
  return new LogError("form", "not an entry of an issuance log", cause);
}
