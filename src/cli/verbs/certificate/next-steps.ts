import { formatRevoked } from "../../../config/distrust.ts";
import type { RevocationContent } from "../../../custody/revocation-statement.ts";
import type { Session } from "../../session/session.ts";
import { printable } from "../../terminal/text.ts";
import type { SearchFields } from "../log/follower-index.ts";
import type { Candidate } from "./candidate.ts";

/** The revoked certificates, and the search that found them. */
export interface Revoked {
  readonly revoked: readonly Candidate[];
  readonly statements: readonly RevocationContent[];
  readonly fields: SearchFields;
}

/** The most names for which a denial is suggested. */
const maximumSuggestions = 5;

/** The most certificates that are suggested for the configuration: a variable of a Worker has 5 kB. */
const maximumConfigured = 50;

/** Tells an operator what the revocation does not do, and which commands do that. */
export function printNextSteps(session: Session, { revoked, statements, fields }: Revoked): void {
  const { terminal, configuration } = session;
  const knownFrom = statements[0]?.knownFrom.toISOString();
  terminal.print(`
Every process of the CA knows of it by ${knownFrom}. From then on they are no credentials for a renewal.`);
  terminal.print(
    configuration.crl
      ? "They are on the CRLs by then. A verifier refuses them once it has the new CRL of their authority."
      : 'CRL is off, so verifiers go on accepting them until they expire: set CRL = "on".',
  );
  terminal.print(`
Their holders may get new certificates. To prevent that as well:
${denials(revoked, fields)
  .map((subject) => `  rampart deny add ${printable(subject)}`)
  .join("\n")}`);
  if (revoked.length > maximumConfigured) return;
  const entries = [...configuration.configuredRevocations, ...statements];
  terminal.print(`
Anybody who can write to the store can withhold this revocation. To have it count whatever the store says,
put these lines into the configuration: in rampart.toml above all tables, in wrangler.toml under [vars].
REVOKED = [
${entries.map((each) => `  ${formatRevoked(each)},`).join("\n")}
]`);
}

function denials(revoked: readonly Candidate[], fields: SearchFields): readonly string[] {
  const { node, cluster, tokenId } = fields;
  const searched = [
    ...(tokenId === undefined ? [] : [`token/${tokenId}`]),
    ...(node === undefined ? [] : [`node/${node}`]),
    ...(cluster === undefined ? [] : [`cluster/${cluster}`]),
  ];
  if (searched.length > 0) return searched;
  const names = revoked.flatMap(({ name }) => (name?.startsWith("spiffe://") ? [name] : []));
  const distinct = [...new Set(names)];
  return distinct.length > 0 && distinct.length <= maximumSuggestions
    ? distinct
    : ["<SPIFFE ID, node/<name>, pod/<uid> or token/<jti>>"];
}
