import type { AuthorityView } from "../../../ca/authority-view.ts";
import { Forecast } from "../../../ca/rotation/forecast.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { addSeconds } from "../../../pki/x509/validity.ts";
import { parseSpiffeBundle } from "../../../program/bundle/spiffe-bundle.ts";
import { Finding } from "../../../status/finding.ts";
import { type DeploymentChoice, openDeployment } from "../../session/deployment.ts";
import { currentView } from "../../session/stores.ts";
import { examine } from "../doctor/examination.ts";
import type { Deployed } from "./deployed.ts";
import { attention, broken, good, type Measurement, type Row, skipped } from "./row.ts";

/**
 * Makes the rows for which an operator's access is needed: the store and the checkup. They are skipped unless `choice`
 * names the CA.
 */
export function operatorRows(choice: DeploymentChoice): readonly Row[] {
  const isNamed = choice.config !== undefined || choice.env !== undefined || choice.remote === true;
  const unnamed = "name the CA's configuration: --config, and --remote for a deployed Worker";
  const ifNamed =
    (measure: Row["measure"]): Row["measure"] =>
    (deployed) =>
      isNamed ? measure(deployed) : skipped(unnamed);
  return [
    {
      name: "store",
      expect: "The served bundle is the one of the store",
      why: "If they differ for long, this CA has another store, or reads an old replica of it.",
      page: "rampart docs platform",
      measure: ifNamed(async (deployed) =>
        compareBundles(await viewOf(choice, deployed), deployed),
      ),
    },
    {
      name: "cron",
      expect: "The next authority is minted in time",
      why: "Without a successor, the CA stops signing on the day that the last authority does.",
      page: "rampart docs rotate",
      measure: ifNamed(async (deployed) => judgeCron(await viewOf(choice, deployed), deployed)),
    },
    {
      name: "doctor",
      expect: "No error and no warning",
      why: "The checkup sees what no caller can: records, issuers and clusters.",
      page: "rampart docs troubleshoot",
      measure: ifNamed(async ({ parts: { terminal } }) => {
        const { findings } = await examine(choice, terminal);
        const said = findings.map(({ severity, name }) => `${severity} ${name}`).join(", ");
        return bySeverity[Finding.worstOf(findings) ?? "note"](said || "nothing was found");
      }),
    },
  ];
}

async function viewOf(choice: DeploymentChoice, { parts: { terminal }, clock }: Deployed) {
  const options = { ...choice, dryRun: true };
  const deployment = await openDeployment(options, terminal.environment, clock());
  try {
    const view = await currentView(deployment, clock());
    if (view) return view;
  } finally {
    await deployment.close();
  }
  throw new OperatorError("the store of authorities cannot be read");
}

async function compareBundles(view: AuthorityView, { ask, clock }: Deployed): Promise<Measurement> {
  const served = parseSpiffeBundle((await ask("/bundle.json")).octets);
  if (served.sequence === view.sequence) return good(`both are at ${served.sequence}`);
  // A sequence is the instant of the last change, in milliseconds since 1970.
  const seconds = Math.round((clock().getTime() - Math.max(view.sequence, served.sequence)) / 1000);
  const said = `${served.sequence} is served, and the store is at ${view.sequence} for ${seconds} s`;
  const isYoung = seconds < view.store.phaseLengths.propagationSeconds;
  return (isYoung ? attention : broken)(said);
}

function judgeCron({ store }: AuthorityView, { clock }: Deployed): Measurement {
  const { authorities, authorityRoot, phaseLengths } = store;
  if (authorityRoot !== "self")
    return skipped("another CA certifies the next authority: see doctor");
  const now = clock();
  const published = authorities.map(({ schedule }) => schedule.publishedFrom.getTime());
  const last = addSeconds(new Date(Math.max(...published)), -phaseLengths.propagationSeconds);
  const next = Forecast.rotation(store, phaseLengths, now).find(({ event }) => event === "minted");
  const said = `the last authority was minted at ${last.toISOString()}, the next is due at ${next?.at.toISOString()}`;
  return next && next.at > now ? good(said) : broken(`${said}: the scheduled run does not run`);
}

const bySeverity: Readonly<Record<Finding["severity"], typeof good>> = {
  note: good,
  warning: attention,
  error: broken,
};
