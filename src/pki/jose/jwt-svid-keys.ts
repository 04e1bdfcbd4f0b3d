import { Members } from "../../foundation/json-members.ts";
import { KeySet } from "./key-set.ts";

/** The keys of a trust domain for JWT-SVIDs (SPIFFE JWT-SVID §4). */
export const JwtSvidKeys = {
  /**
   * The usable keys for JWT-SVIDs among the keys of a SPIFFE bundle. It leaves out keys without an id, because no verifier
   * finds them. It leaves out keys of a kind that signs no JWT-SVID, because other verifiers would refuse the set.
   */
  in(keys: readonly unknown[]): KeySet {
    return keys
      .filter((key) => Members.of(key)["use"] === "jwt-svid")
      .flatMap((key) => KeySet.usable(key) ?? [])
      .filter(({ keyId, jwk }) => keyId && jwk.kty !== "OKP");
  },

  /** The public members of a key as a JWK with its id, and with its algorithm if it has exactly one. */
  toJwk({ keyId, jwk, algorithms }: KeySet[number]): object {
    const [alg, ...others] = algorithms;
    return { ...jwk, kid: keyId, ...(others.length === 0 && { alg }) };
  },
};
