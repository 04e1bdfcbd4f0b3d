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
  /**
   * The DNS names under which this account serves as a gateway, or nothing for one that is none. A
   * gateway may also say whose certificate its client has shown.
   */
  readonly gatewayNames: (account: ServiceAccount) => readonly string[] | undefined;
  readonly keys: IssuerKeys;
}

/**
 * A predicate for namespaces from globs, in which `*` stands for any run of characters.
 *
 * No regular expression: many stars make one backtrack for longer than a request may take.
 */
export function namespaceAllowList(globs: readonly string[]): (namespace: string) => boolean {
  const forms = globs.map((glob) => glob.split("*"));
  return (namespace) => forms.some((pieces) => matches(pieces, namespace));
}

/** The first piece begins the name, the last ends it, the others come in between in their order. */
function matches([first = "", ...others]: readonly string[], name: string): boolean {
  const last = others.pop();
  if (last === undefined) return name === first;
  if (!name.startsWith(first) || name.length < first.length + last.length) return false;
  let position = first.length;
  for (const piece of others) {
    const found = name.indexOf(piece, position);
    if (found < 0) return false;
    position = found + piece.length;
  }
  return position <= name.length - last.length && name.endsWith(last);
}
