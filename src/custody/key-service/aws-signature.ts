import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { fingerprintOf, Hex } from "../../pki/encoding/bytes.ts";

/** The keys of an account or a role of AWS, or of a service like it. No log or error quotes any of them. */
export interface AwsKeys {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** Present for temporary keys, which last for some hours. */
  readonly sessionToken: string | undefined;
}

interface SignedRequest {
  readonly method: string;
  /** Its query must be sorted, and escaped as in RFC 3986. */
  readonly url: URL;
  /** Header fields with lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  /** SHA-256 of the body, in hexadecimal. */
  readonly digest: string;
}

/** Signs requests to AWS. */
export const AwsKeys = {
  /** The headers of a request with its signature: Signature Version 4 of AWS, over all of them and the body. */
  async signedHeaders(
    { method, url, headers, digest }: SignedRequest,
    { accessKeyId, secretAccessKey, sessionToken }: AwsKeys,
    [region, service]: readonly [region: string, service: string],
    now: Date,
  ): Promise<Record<string, string>> {
    const date = now.toISOString().replace(/[:-]|\.\d{3}/g, "");
    const signed = {
      ...headers,
      "x-amz-date": date,
      ...(sessionToken && { "x-amz-security-token": sessionToken }),
    };
    const lines = Object.entries({ host: url.host, ...signed }).toSorted();
    const names = lines.map(([name]) => name).join(";");
    const head = lines.map(([name, value]) => `${name}:${value}\n`).join("");
    const parts = [method, url.pathname, url.search.slice(1), head, names, digest];
    const day = [date.slice(0, 8), region, service, "aws4_request"];
    const scope = day.join("/");
    const asked = fingerprintOf(text.encode(parts.join("\n")));
    const said = ["AWS4-HMAC-SHA256", date, scope, asked].join("\n");
    const key = hmac(sha256, keyOf(secretAccessKey, day), text.encode(said));
    const authorization = `AWS4-HMAC-SHA256 Credential=${accessKeyId}/${scope}, SignedHeaders=${names}, Signature=${Hex.format(key)}`;
    return { ...signed, authorization };
  },

  /** The domain of AWS's services in a region; that of the usual partition for an unknown one. */
  domain: (region = ""): string =>
    partitions.find(([prefix]) => region.startsWith(prefix))?.[1] ?? "amazonaws.com",
};

const text = new TextEncoder();

let lastKey: { readonly of: string; readonly key: Uint8Array } | undefined;

/** Derives the signing key for a day, a region and a service. */
function keyOf(secretAccessKey: string, day: readonly string[]): Uint8Array {
  const of = [secretAccessKey, ...day].join("/");
  if (lastKey?.of === of) return lastKey.key;
  // For so few octets, a call of WebCrypto takes longer than this.
  let key: Uint8Array = text.encode(`AWS4${secretAccessKey}`);
  for (const part of day) key = hmac(sha256, key, text.encode(part));
  lastKey = { of, key };
  return key;
}

/** The domains of AWS's partitions, by the beginning of their regions' names (AWS SDKs, `partitions.json`). */
const partitions: readonly (readonly [string, string])[] = [
  ["cn-", "amazonaws.com.cn"],
  ["eusc-", "amazonaws.eu"],
  ["us-iso-", "c2s.ic.gov"],
  ["us-isob-", "sc2s.sgov.gov"],
  ["us-isof-", "csp.hci.ic.gov"],
  ["eu-isoe-", "cloud.adc-e.uk"],
];
