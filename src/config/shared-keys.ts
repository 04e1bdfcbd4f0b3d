import type { IssuerTable } from "./issuer-table.ts";

/**
 * Clusters with a key in common, as copies of one cluster have: each signs what the other may have, so
 * there is no wall between them. One cluster under two names is none, and may be on its way to another issuer.
 *
 * Keys that are looked up at the issuer are not known here.
 *
 * @returns One sentence for two issuers.
 */
export function sharedKeys(issuers: readonly IssuerTable[]): string[] {
  const owners = new Map<string, IssuerTable>();
  const sentences = new Set<string>();
  for (const table of issuers) {
    for (const key of keysOf(table)) {
      const owner = owners.get(key);
      if (!owner) owners.set(key, table);
      else if (owner.cluster !== table.cluster) sentences.add(sentence(owner, table));
    }
  }
  return [...sentences];
}

function keysOf({ jwks, jwks_uri }: IssuerTable): readonly string[] {
  return jwks_uri === undefined ? (jwks ?? []).map(({ material }) => material) : [jwks_uri];
}

const sentence = (one: IssuerTable, other: IssuerTable): string =>
  `ISSUERS: ${other.issuer} has a key of ${one.issuer}: each of the two clusters can sign for the other`;
