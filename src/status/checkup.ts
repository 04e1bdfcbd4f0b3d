import type { TokenIssuer } from "../authn/token-issuer.ts";
import type { AuthorityView } from "../ca/authority-view.ts";
import type { Configuration } from "../config/configuration.ts";
import type { ClusterPush } from "../delivery/cluster-push.ts";
import { pushedCrlFindings, pushedRootFindings } from "./clusters.ts";
import { configurationFindings } from "./configuration-findings.ts";
import { type Finding, ofSigner, worstFirst } from "./finding.ts";
import { examinedIssuer, issuerFindings } from "./issuers.ts";
import { storeFindings } from "./store-findings.ts";

/** The parts of a running CA that a checkup reads. */
export interface CheckupSources {
  readonly configuration: Pick<
    Configuration,
    "inceptionDate" | "signers" | "issuers" | "warnings" | "crl"
  >;
  readonly issuers: readonly TokenIssuer[];
  readonly push: Pick<ClusterPush, "outcomes">;
  readonly crlPush: Pick<ClusterPush, "outcomes">;
}

/** The checkup of a running CA: its findings, the worst first. It asks nobody; `rampart doctor` looks further. */
export type Checkup = (views: ReadonlyMap<string, AuthorityView>, now: Date) => readonly Finding[];

/** The longest sentence that is shown. */
const longestWhat = 1000;

export function createCheckup(sources: CheckupSources): Checkup {
  const { configuration, issuers, push, crlPush } = sources;
  const inceptionDates = new Map([
    ["", configuration.inceptionDate],
    ...configuration.signers.map((each) => [each.name, each.inception_date] as const),
  ]);
  // Many issuers take a while to compare, and their configuration stays as it is.
  let configured: readonly Finding[] | undefined;

  return (views, now) => {
    configured ??= configurationFindings(configuration);
    const found = [
      ...configured,
      ...[...views].flatMap(([name, { store }]) =>
        storeFindings(store, { inceptionDate: inceptionDates.get(name), now }).map((each) =>
          ofSigner(name, each),
        ),
      ),
      ...issuerFindings(issuers.map((each) => examinedIssuer(each, now))),
      ...pushedRootFindings(push.outcomes(), views.get("")?.sequence),
      ...(configuration.crl ? pushedCrlFindings(crlPush.outcomes()) : []),
    ];
    return worstFirst(found).map((each) => ({ ...each, what: each.what.slice(0, longestWhat) }));
  };
}
