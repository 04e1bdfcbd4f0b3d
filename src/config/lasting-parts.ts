import type { IssuerKeys } from "../authn/token/issuer-keys.ts";
import type { TokenReview } from "../authn/token/token-review.ts";
import type { CrlSource } from "../ca/revocation/published-crls.ts";
import { Lasting } from "../foundation/work/lasting.ts";
import type { Pods } from "../kubernetes/pods.ts";

/**
 * The parts of a CA that outlive a change of the configuration. Without them, a change of one cluster would
 * forget the keys of an issuer that cannot be reached now, list the pods of all clusters anew, and sign every
 * CRL again.
 */
export interface LastingParts {
  readonly keys: Lasting<IssuerKeys>;
  readonly reviews: Lasting<TokenReview>;
  readonly pods: Lasting<Pods>;
  readonly crls: Lasting<CrlSource>;
}

export const lastingParts = (): LastingParts => ({
  keys: new Lasting(),
  reviews: new Lasting(),
  pods: new Lasting(),
  crls: new Lasting(),
});
