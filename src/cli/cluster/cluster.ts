import { Command, Option } from "commander";
import type { ReviewOrder } from "../../authn/trusted-issuer.ts";
import { createJsonFetch } from "../../foundation/json-fetch.ts";
import { OperatorError } from "../../foundation/operator-error.ts";
import { fetchTrusting } from "../../host/node-fetch.ts";
import { currentBundle } from "../root/current-bundle.ts";
import {
  type DeliveryReport,
  formatDeliveries,
  reportDeliveries,
} from "../root/delivery-report.ts";
import { type Deployment, type DeploymentChoice, openDeployment } from "../session/deployment.ts";
import { addDeploymentOptions } from "../terminal/options.ts";
import { formatIssuers, type IssuerReport, inspectIssuers } from "./cluster-check.ts";
import {
  type EnrolmentWishes,
  enrol,
  formatEnrolment,
  parseShown,
  type ShownIssuer,
} from "./cluster-enrol.ts";
import { inspectClusters } from "./cluster-inspection.ts";
import { addLoginOptions, type LoginChoice } from "./cluster-logins.ts";
import { type ClusterLogin, defaultKubeconfig, readKubeconfig, readText } from "./kubeconfig.ts";

/** `rampart cluster …`: whose tokens are accepted. */
export function clusterCommand(clock: () => Date): Command {
  const cluster = new Command("cluster").description("the clusters whose workloads may ask");
  addEnrol(cluster.command("enrol"));
  addLoginOptions(addDeploymentOptions(cluster.command("check")))
    .description(
      "every configured issuer: reachable, keys, clock, whom its tokens may become, and which roots its cluster has",
    )
    .option("--json", "as JSON")
    .action((options: CheckOptions) => check(options, clock));
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
  readonly for: "worker" | "serve";
}

function addEnrol(command: Command): void {
  const files = ["issuer", "kubeconfig", "context"];
  command
    .description("print the table of ISSUERS for a cluster, from what it is willing to show")
    .option("--kubeconfig <file>", "reach the cluster as kubectl does (the default)")
    .option("--context <name>", "a context of that file, instead of the current one")
    .addOption(
      new Option("--issuer <url>", "its issuer alone").conflicts(["kubeconfig", "context"]),
    )
    .addOption(
      new Option(
        "--discovery <file>",
        "what `kubectl get --raw /.well-known/openid-configuration` printed",
      ).conflicts(files),
    )
    .addOption(
      new Option("--jwks <file>", "what `kubectl get --raw /openid/v1/jwks` printed").conflicts(
        files,
      ),
    )
    .option("--name <cluster>", "the clusterid of its workloads", "Kubernetes")
    .option("--audience <audience...>", "what its tokens are for", ["istio-ca"])
    .addOption(
      new Option("--review <order>", "let its API server judge tokens, too")
        .choices(["after-keys", "before-keys", "instead-of-keys"] satisfies ReviewOrder[])
        .conflicts(["issuer", "discovery", "jwks"]),
    )
    .addOption(
      new Option("--for <platform>", "whose configuration it is pasted into")
        .choices(["worker", "serve"])
        .default("worker"),
    )
    .action(async (options: EnrolOptions) => {
      const login = isOffline(options) ? undefined : await logIn(options);
      const wishes = wishesOf(options, login);
      const enrolment = await enrol(
        await shownBy(options, login),
        wishes,
        createJsonFetch(fetchTrusting(undefined)),
      );
      console.log(formatEnrolment(enrolment, options.for));
    });
}

const isOffline = ({ issuer, discovery, jwks }: EnrolOptions): boolean =>
  issuer !== undefined || discovery !== undefined || jwks !== undefined;

const logIn = ({ kubeconfig, context }: EnrolOptions): Promise<ClusterLogin> =>
  readKubeconfig(kubeconfig ?? defaultKubeconfig(), context);

async function shownBy(
  { issuer, discovery, jwks }: EnrolOptions,
  login: ClusterLogin | undefined,
): Promise<ShownIssuer> {
  if (issuer !== undefined) return { issuer, jwks: undefined };
  if (login) {
    const read = login.read;
    return parseShown(
      await read("/.well-known/openid-configuration"),
      await read("/openid/v1/jwks"),
    );
  }
  if (discovery === undefined || jwks === undefined) {
    throw new OperatorError("--discovery and --jwks come together");
  }
  return parseShown(await readText(discovery), await readText(jwks));
}

function wishesOf(
  { name = "Kubernetes", audience, review }: EnrolOptions,
  login: ClusterLogin | undefined,
): EnrolmentWishes {
  const kubernetes = login && review && { server: login.server, ca: login.ca, review };
  return { cluster: name, audiences: audience, kubernetes };
}

interface CheckOptions extends DeploymentChoice, LoginChoice {
  readonly json?: boolean;
}

async function check({ json, ...choice }: CheckOptions, clock: () => Date): Promise<void> {
  const deployment = await openDeployment(choice);
  try {
    const [reports, deliveries] = await Promise.all([
      inspectIssuers(deployment.configuration, clock),
      inspectDeliveries(deployment, choice, clock()),
    ]);
    console.log(json ? checkJson(reports, deliveries) : formatCheck(reports, deliveries));
    const faults = reports.filter(({ fault }) => fault !== undefined).length;
    if (faults > 0)
      throw new OperatorError(`${faults} of ${reports.length} issuers have no keys to show`);
  } finally {
    await deployment.close();
  }
}

async function inspectDeliveries(
  deployment: Deployment,
  choice: LoginChoice,
  now: Date,
): Promise<DeliveryReport[]> {
  const sights = await inspectClusters(deployment.configuration, choice);
  return reportDeliveries(sights, () => currentBundle(deployment, now));
}

const formatCheck = (
  reports: readonly IssuerReport[],
  deliveries: readonly DeliveryReport[],
): string => `${formatIssuers(reports)}\n\n${formatDeliveries(deliveries)}`;

/** Each issuer with what its cluster has; a login that is nobody's comes by itself. */
function checkJson(
  reports: readonly IssuerReport[],
  deliveries: readonly DeliveryReport[],
): string {
  const issuers = reports.map((report) => ({
    ...report,
    delivery: deliveries.find(({ issuer }) => issuer === report.issuer),
  }));
  const strangers = deliveries
    .filter(({ issuer }) => issuer === undefined)
    .map((delivery) => ({ cluster: delivery.cluster, delivery }));
  return JSON.stringify([...issuers, ...strangers], undefined, 2);
}
