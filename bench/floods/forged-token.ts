import { randomBytes } from "node:crypto";

/** The issuers that `serve` knows: honest callers have tokens of the first, and the other never answers for its keys. */
export const issuers = {
  known: "https://bench.example",
  silent: "https://silent.example",
  hostile: "https://hostile.example",
};

const encoded = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");

/** A token that a stranger made up. Its key is known only where the issuer is. */
export function credentialOf(issuer: string): string {
  const kid = issuer === issuers.known ? "bench" : randomBytes(8).toString("hex");
  const seconds = Math.floor(Date.now() / 1000);
  const subject = "system:serviceaccount:foo:stranger";
  const claims = {
    iss: issuer,
    aud: ["istio-ca"],
    sub: subject,
    iat: seconds,
    exp: seconds + 3600,
  };
  const head = encoded({ alg: "RS256", kid });
  return `Bearer ${head}.${encoded(claims)}.${randomBytes(256).toString("base64url")}`;
}
