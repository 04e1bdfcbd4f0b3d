import { create } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { unusableKeyText } from "../authn/token/key-set.ts";
import type { TrustedIssuer } from "../authn/trusted-issuer.ts";
import type { AuthorityView } from "../ca/authority-view.ts";
import type { Configuration } from "../config/configuration.ts";
import { outcomesByCluster } from "../delivery/outcomes-by-cluster.ts";
import type { PushOutcome } from "../delivery/push-to-cluster.ts";
import type { RootPush } from "../delivery/root-push.ts";
import {
  type Checkup,
  CheckupSchema,
  Finding_Severity as Said,
} from "../gen/rampart/status/v1/status_pb.ts";
import { configurationFindings } from "./configuration-findings.ts";
import {
  crlFindings,
  type DeliveryCounts,
  notInspected,
  rootFindings,
} from "./delivery-findings.ts";
import { type Finding, ofSigner, type Severity, worstFirst } from "./finding.ts";
import { type ExaminedIssuer, issuerFindings } from "./issuer-findings.ts";
import { storeFindings } from "./store-findings.ts";

/** The parts of a configuration that a checkup reads. */
export type CheckedConfiguration = Pick<
  Configuration,
  "inceptionDate" | "issuers" | "warnings" | "crl"
>;

/** The parts of a running CA that a checkup reads. */
export interface CheckupSources {
  readonly configuration: CheckedConfiguration;
  readonly issuers: readonly TrustedIssuer[];
  readonly push: Pick<RootPush, "outcomes">;
  readonly crlPush: Pick<RootPush, "outcomes">;
}

/** The checkups of a running CA. They ask nobody; `rampart doctor` looks further. */
export interface Checkups {
  readonly at: (views: ReadonlyMap<string, AuthorityView>, now: Date) => Checkup;
}

export function createCheckups(sources: CheckupSources): Checkups {
  const { configuration, issuers, push, crlPush } = sources;
  // Many issuers take a while to compare, and their configuration stays as it is.
  let configured: readonly Finding[] | undefined;

  return {
    at: (views, now) => {
      configured ??= configurationFindings(configuration);
      const sequence = views.get("")?.sequence;
      const found = [
        ...configured,
        ...recordFindings(views, configuration, now),
        ...issuerFindings(issuers.map(examinedIssuer)),
        ...outcomesByCluster(push.outcomes()).flatMap((each) => rootsOf(each, sequence)),
        ...(configuration.crl ? outcomesByCluster(crlPush.outcomes()).flatMap(crlsOf) : []),
      ];
      return create(CheckupSchema, {
        at: timestampFromDate(now),
        findings: worstFirst(found).map(shown),
      });
    },
  };
}

function recordFindings(
  views: ReadonlyMap<string, AuthorityView>,
  { inceptionDate }: CheckedConfiguration,
  now: Date,
): Finding[] {
  return [...views].flatMap(([name, { store }]) =>
    storeFindings(store, { inceptionDate, now }).map((each) => ofSigner(name, each)),
  );
}

function examinedIssuer({ name: issuer, cluster, keys }: TrustedIssuer): ExaminedIssuer {
  const { failure, unusable = [] } = keys.state?.() ?? {};
  return {
    issuer,
    cluster,
    fault: failure?.detail,
    unusableKeys: unusable.map(unusableKeyText),
  };
}

/** Findings about the roots in a cluster. After a rotation, they are old until the next push. */
function rootsOf(outcome: PushOutcome, sequence: number | undefined): readonly Finding[] {
  const current = outcome.sequence === sequence ? rootFindings(countsOf(outcome), []) : [];
  return uninspected("roots", outcome) ?? current;
}

/** Findings about the CRLs in a cluster. A push does not note which of the older lists have ended. */
const crlsOf = (outcome: PushOutcome): readonly Finding[] =>
  uninspected("CRLs", outcome) ?? crlFindings({ ...countsOf(outcome), ended: 0 });

/** The finding about a cluster of which a push has seen no namespace. */
function uninspected(
  what: "roots" | "CRLs",
  { cluster, namespaces, fault }: PushOutcome,
): readonly Finding[] | undefined {
  if (fault === undefined || namespaces > 0) return undefined;
  return [notInspected(what, cluster, fault)];
}

function countsOf({ cluster, namespaces, delivered, missing }: PushOutcome): DeliveryCounts {
  return { cluster, namespaces, stale: namespaces - delivered - missing, missing };
}

const severities: Readonly<Record<Severity, Said>> = {
  note: Said.NOTE,
  warning: Said.WARNING,
  error: Said.ERROR,
};

/** The longest sentence that is shown. */
const longestWhat = 1000;

const shown = ({ severity, what, ...rest }: Finding) => ({
  ...rest,
  what: what.slice(0, longestWhat),
  severity: severities[severity],
});
