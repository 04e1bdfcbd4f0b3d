import type { IssuerTable } from "./issuer-table.ts";

/**
 * Warns of clusters that share a key, as copies of one cluster do: each can sign tokens of the other,
 * so nothing isolates them. Two issuers of the same cluster may share theirs: that is how a cluster
 * changes its issuer.
 *
 * Keys that an issuer publishes are not known at the start, so only their URLs are compared.
 *
 * @returns One sentence for each pair of issuers.
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
  return jwks_uri === undefined ? (jwks?.usable ?? []).map(({ material }) => material) : [jwks_uri];
}

const sentence = (one: IssuerTable, other: IssuerTable): string =>
  `ISSUERS: ${other.issuer} has a key of ${one.issuer}: each of the two clusters can sign for the other`;
