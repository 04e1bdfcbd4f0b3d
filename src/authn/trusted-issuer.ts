import type { ServiceAccount } from "../pki/spiffe-id.ts";
import type { IssuerKeys } from "./issuer-keys.ts";

/** An issuer of ServiceAccount tokens, and what its tokens are good for: one table of `ISSUERS`. */
export interface TrustedIssuer {
  /** Compared with `iss` byte for byte. */
  readonly issuer: string;
  /** A token must name one of them. */
  readonly audiences: readonly string[];
  /** The one cluster id that its callers may claim. */
  readonly cluster: string;
  readonly mayVouchFor: (account: ServiceAccount) => boolean;
  /** Whether this account is a node proxy's, which may ask for the identities of others. */
  readonly isNodeAccount: (account: ServiceAccount) => boolean;
  readonly keys: IssuerKeys;
}

/** A predicate for namespaces from globs, in which `*` stands for any run of characters. */
export function namespaceAllowList(globs: readonly string[]): (namespace: string) => boolean {
  const forms = globs.map((glob) => glob.split("*").map(literal).join(".*"));
  const form = new RegExp(`^(?:${forms.join("|")})$`);
  return (namespace) => form.test(namespace);
}

const literal = (text: string): string => text.replace(/[^a-z0-9]/g, "\\$&");
