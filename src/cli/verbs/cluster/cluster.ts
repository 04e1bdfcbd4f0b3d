import { Command, Option } from "commander";
import type { ReviewOrder } from "../../../authn/token-issuer.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { DocumentFetch } from "../../../foundation/fetch.ts";

import { NodeFetch } from "../../../program/http/http-client.ts";
import {
  type Deployment,
  type DeploymentChoice,
  openDeployment,
} from "../../session/deployment.ts";
import { type ClusterLogin, readFileText, readKubeconfig } from "../../session/kubeconfig.ts";
import { currentView } from "../../session/stores.ts";
import {
  addDeploymentOptions,
  addExitCodes,
  exitCodes,
  usageError,
} from "../../terminal/command-line.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { formatIssuers, type IssuerReport, inspectIssuers, isSkewed } from "./cluster-check.ts";
import {
  type EnrolmentSettings,
  enrol,
  formatEnrolment,
  type IssuerDocuments,
  parseIssuerDocuments,
  platforms,
} from "./cluster-enrol.ts";
import { addLoginOptions, inspectClusters, type LoginChoice } from "./cluster-inspection.ts";
import { type DeliveryReport, formatDeliveries, reportDeliveries } from "./delivery-report.ts";

/** `rampart cluster …`: enrols and checks the clusters whose tokens the CA accepts. */
export function clusterCommand(terminal: Terminal): Command {
  const cluster = new Command("cluster").description("the clusters whose tokens the CA accepts");
  addEnrol(cluster.command("enrol"), terminal);
  const checking = addExitCodes(cluster.command("check"), {
    attention: "The clock of an issuer differs by more than its tokens bear.",
    broken: "The keys of an issuer cannot be loaded.",
  });
  addLoginOptions(addDeploymentOptions(checking))
    .description(
      "check every configured issuer: its keys, its clock, the identities of its tokens, and the roots in its cluster",
    )
    .option("--json", "print JSON")
    .action((options: CheckOptions) => check(options, terminal));
  return cluster;
}

interface EnrolOptions {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly issuer?: string;
  readonly discovery?: string;
  readonly jwks?: string;
  readonly name?: string;
  readonly audience: readonly string[];
  readonly review?: ReviewOrder;
  readonly for: EnrolmentSettings["platform"];
}

function addEnrol(command: Command, terminal: Terminal): void {
  const files = ["issuer", "kubeconfig", "context"];
  command
    .description(
      "print the table of ISSUERS for a cluster, from the documents that the cluster publishes",
    )
    .option("--kubeconfig <file>", "reach the cluster as kubectl does (the default)")
    .option("--context <name>", "a context of that file, instead of the current one")
    .addOption(
      new Option(
        "--issuer <url>",
        "the URL of its issuer, without access to the cluster",
      ).conflicts(["kubeconfig", "context"]),
    )
    .addOption(
      new Option(
        "--discovery <file>",
        "the output of `kubectl get --raw /.well-known/openid-configuration`",
      ).conflicts(files),
    )
    .addOption(
      new Option("--jwks <file>", "the output of `kubectl get --raw /openid/v1/jwks`").conflicts(
        files,
      ),
    )
    .option("--name <cluster>", "the clusterid of its workloads", "Kubernetes")
    .addOption(
      new Option("--audience <audience...>", "the audiences of its tokens").default(
        ["istio-ca"],
        "istio-ca",
      ),
    )
    .addOption(
      new Option("--review <order>", "have its API server review tokens")
        .choices(["after-keys", "before-keys", "instead-of-keys"] satisfies ReviewOrder[])
        .conflicts(["issuer", "discovery", "jwks"]),
    )
    .addOption(
      new Option("--for <platform>", "the platform whose configuration gets the table")
        .choices(platforms)
        .default("worker"),
    )
    .action((options: EnrolOptions) => enrolCluster(terminal, options));
}

async function enrolCluster(terminal: Terminal, options: EnrolOptions): Promise<void> {
  const login = isOffline(options) ? undefined : await logIn(options, terminal);
  const settings = settingsOf(options, login);
  const enrolment = await terminal.progress("asking for the keys of the issuer", async () =>
    enrol(
      await loadIssuerDocuments(options, login),
      settings,
      DocumentFetch.create({ fetchTrusting: NodeFetch.trusting }),
    ),
  );
  terminal.print(formatEnrolment(enrolment, options.for));
}

const isOffline = ({ issuer, discovery, jwks }: EnrolOptions): boolean =>
  issuer !== undefined || discovery !== undefined || jwks !== undefined;

const logIn = (
  { kubeconfig, context }: EnrolOptions,
  { environment }: Terminal,
): Promise<ClusterLogin> => readKubeconfig(kubeconfig, context, environment);

async function loadIssuerDocuments(
  { issuer, discovery, jwks }: EnrolOptions,
  login: ClusterLogin | undefined,
): Promise<IssuerDocuments> {
  if (issuer !== undefined) return { issuer, jwks: undefined };
  if (login) {
    const discovery = await login.read("/.well-known/openid-configuration");
    return parseIssuerDocuments(discovery, await login.read("/openid/v1/jwks"));
  }
  if (discovery === undefined || jwks === undefined) {
    throw usageError("--discovery and --jwks must be given together");
  }
  return parseIssuerDocuments(await readFileText(discovery), await readFileText(jwks));
}

function settingsOf(
  { name = "Kubernetes", audience, review, for: platform }: EnrolOptions,
  login: ClusterLogin | undefined,
): EnrolmentSettings {
  const kubernetes = login && review && { server: login.server, ca: login.ca, review };
  return { platform, cluster: name, audiences: audience, kubernetes };
}

interface CheckOptions extends DeploymentChoice, LoginChoice {
  readonly json?: boolean;
}

async function check(options: CheckOptions, terminal: Terminal): Promise<void> {
  terminal.nameCa(options);
  const deployment = await openDeployment(options, terminal.environment, terminal.clock());
  try {
    terminal.noticePlace(deployment.place, options);
    const inspect = () =>
      Promise.all([
        inspectIssuers(deployment.configuration, terminal.clock),
        inspectDeliveries(deployment, options, terminal),
      ]);
    const what = "asking issuers and clusters";
    const [reports, deliveries] = await terminal.progress(what, inspect, options);
    terminal.answer(checkJson(reports, deliveries), options, () =>
      [formatIssuers(terminal, reports), formatDeliveries(terminal, deliveries)].join("\n\n"),
    );
    const faults = reports.filter(({ fault }) => fault !== undefined).length;
    if (faults > 0)
      throw new OperatorError(
        `the keys of ${faults} of ${reports.length} issuers cannot be loaded`,
        { exitCode: exitCodes.broken },
      );
    const skewed = reports.some(({ clockAheadSeconds = 0 }) => isSkewed(clockAheadSeconds));
    if (skewed) terminal.exitWith(exitCodes.attention);
  } finally {
    await deployment.close();
  }
}

async function inspectDeliveries(
  deployment: Deployment,
  choice: LoginChoice,
  terminal: Terminal,
): Promise<DeliveryReport[]> {
  const inspections = await inspectClusters(deployment.configuration, choice, terminal.environment);
  return reportDeliveries(inspections, () => currentView(deployment, terminal.clock()));
}

/** Joins each issuer with the roots in its cluster; a login without an issuer gets an entry of its own. */
function checkJson(
  reports: readonly IssuerReport[],
  deliveries: readonly DeliveryReport[],
): readonly object[] {
  const issuers = reports.map((report) => ({
    ...report,
    delivery: deliveries.find(({ issuer }) => issuer === report.issuer),
  }));
  const others = deliveries
    .filter(({ issuer }) => issuer === undefined)
    .map((delivery) => ({ cluster: delivery.cluster, delivery }));
  return [...issuers, ...others];
}
