import { rejectCredential } from "../../foundation/errors.ts";
import { parseUniqueJson } from "../../foundation/json.ts";
import type { PublicKey } from "../crypto-provider.ts";
import { parseBase64Url } from "../encoding/base64.ts";
import { allocateBytes, type Bytes } from "../encoding/bytes.ts";
import type { JwsAlgorithm, VerificationKey } from "./key-set.ts";

/** A JSON object with unchecked members. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** The parts of a compact JWS (RFC 7515 §3.1), not verified yet. */
export interface JsonWebSignature {
  readonly algorithm: string;
  readonly keyId: string | undefined;
  /** The payload, which must be a JSON object. */
  readonly claims: JsonObject;
  readonly signedBytes: Bytes;
  readonly signature: Bytes;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Parses a compact JWS: three parts of canonical base64url (RFC 7515 §4, RFC 7519 §4). Two of them are JSON
 * objects without two members of one name.
 *
 * A header with an extension (`crit`, `b64`) or with another token's type (`typ`) is refused (RFC 7515
 * §4.1.11, RFC 7797 §3, RFC 8725 §3.11). Keys in a header are ignored.
 *
 * @throws CaError `credential-rejected` (`form`).
 */
type JsonWebSignatureParser = (token: string) => JsonWebSignature;

/** Enough for the keys of a thousand clusters. Callers can invent headers, so the cache is bounded. */
const maximumHeaders = 4096;
const maximumHeaderLength = 512;

/**
 * All tokens that one key signs have the same header, so the parser reads each header once.
 *
 * @param isType Whether a token may have this `typ`; by default `JWT` in upper or lower case.
 */
export function createJsonWebSignatureParser(
  isType: (typ: unknown) => boolean = isJwt,
): JsonWebSignatureParser {
  const headers = new Map<string, Header>();

  function headerOf(part: string): Header {
    const known = headers.get(part);
    if (known) return known;
    const header = parseHeader(part, isType);
    if (headers.size >= maximumHeaders) headers.clear();
    if (part.length <= maximumHeaderLength) headers.set(part, header);
    return header;
  }

  return (token) => parseCompact(token, headerOf);
}

function parseCompact(token: string, headerOf: (part: string) => Header): JsonWebSignature {
  const payloadStart = token.indexOf(".") + 1;
  const signatureStart = token.indexOf(".", payloadStart) + 1;
  if (payloadStart === 0 || signatureStart === 0 || signatureStart === token.length) {
    throw rejectCredential("form", "not a compact JWS");
  }
  const { algorithm, keyId } = headerOf(token.slice(0, payloadStart - 1));
  const payloadEnd = signatureStart - 1;
  const claims = parseJsonObject(token.slice(payloadStart, payloadEnd));
  const signature = requireBase64Url(parseBase64Url(token.slice(signatureStart)));
  const signedBytes = allocateBytes(payloadEnd);
  encoder.encodeInto(token.slice(0, payloadEnd), signedBytes);
  return { algorithm, keyId, claims, signedBytes, signature };
}

type Header = Pick<JsonWebSignature, "algorithm" | "keyId">;

function parseHeader(part: string, isType: (typ: unknown) => boolean): Header {
  const { alg, kid, typ, crit, b64 = true } = parseJsonObject(part);
  if (typeof alg !== "string") throw rejectCredential("form", "no algorithm in the token");
  if (kid !== undefined && typeof kid !== "string") throw rejectCredential("form", "kid not text");
  if (crit !== undefined) throw rejectCredential("form", "the token demands an extension");
  if (b64 !== true) throw rejectCredential("form", "the token's payload is not base64url");
  if (typ !== undefined && !isType(typ)) throw rejectCredential("form", "the token is no JWT");
  return { algorithm: alg, keyId: kid };
}

function isJwt(typ: unknown): boolean {
  return typeof typ === "string" && typ.toUpperCase() === "JWT";
}

/** A fourth part fails here, because the dot before it is no character of base64url. */
function requireBase64Url(octets: Bytes | undefined): Bytes {
  if (!octets) throw rejectCredential("form", "the token is not base64url");
  return octets;
}

/** One buffer for all parts, longer than any token: each part is parsed before the next is decoded. */
const decoded = new Uint8Array(16 * 1024);

function parseJsonObject(part: string): JsonObject {
  const value = parseJson(requireBase64Url(parseBase64Url(part, decoded)));
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw rejectCredential("form", "a part of the token is not a JSON object");
  }
  return value as JsonObject;
}

function parseJson(bytes: Bytes): unknown {
  try {
    return parseUniqueJson(decoder.decode(bytes));
  } catch (error) {
    // The parser's message quotes the token, so its error must not become the cause.
    const kind = error instanceof Error ? error.name : "error";
    throw rejectCredential(
      "form",
      `a part of the token is not JSON in UTF-8 with unique names (${kind})`,
    );
  }
}

/** The keys that may have signed a token with such a header. */
type KeySource = (
  query: Pick<JsonWebSignature, "algorithm" | "keyId">,
  now: Date,
) => readonly VerificationKey[] | Promise<readonly VerificationKey[]>;

/**
 * Requires that a key of the issuer signed the token.
 *
 * @throws CaError `credential-rejected` (`key`, `signature`), `key-provider-unreachable`.
 */
export async function requireSignature(
  jws: JsonWebSignature,
  keys: KeySource,
  now: Date,
): Promise<void> {
  const known = keys(jws, now);
  const candidates = known instanceof Promise ? await known : known;
  // Every candidate allows the algorithm, so it is one of those that tokens may use.
  const algorithm = jws.algorithm as JwsAlgorithm;
  if (candidates.length === 0) {
    throw rejectCredential("key", "no key of the issuer fits the token's algorithm and key id");
  }
  let hasOpened = false;
  for (const key of candidates) {
    const opened = key.opened.get(algorithm) ?? (await open(key, algorithm));
    if (await opened?.verify(jws.signature, jws.signedBytes)) return;
    hasOpened ||= opened !== undefined;
  }
  if (!hasOpened) throw rejectCredential("key", "the issuer's key cannot be imported");
  throw rejectCredential("signature", "the token's signature is wrong");
}

/** A key that cannot be imported has signed nothing, but the other candidates may have. */
async function open(key: VerificationKey, algorithm: JwsAlgorithm): Promise<PublicKey | undefined> {
  try {
    return await key.open(algorithm);
  } catch (error) {
    if (error instanceof Error) return undefined;
    throw error;
  }
}
