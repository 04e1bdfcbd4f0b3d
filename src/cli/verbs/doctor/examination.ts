import { basename, dirname, join } from "node:path";
import { OpenedStore } from "../../../ca/opened-store.ts";
import type { AuthorityStore } from "../../../custody/authority-store.ts";
import { CaError, messageOf, OperatorError } from "../../../foundation/errors.ts";
import { FetchError } from "../../../foundation/fetch.ts";
import { lambdaLimits } from "../../../node/lambda/events.ts";
import { SmallFile } from "../../../program/files/small-file.ts";
import { EnvironmentProxies } from "../../../program/http/proxies.ts";
import { Runtime } from "../../../program/runtime.ts";
import { CompliancePolicy } from "../../../program/tls-policy.ts";
import { configurationFindings } from "../../../status/configuration-findings.ts";
import { Finding } from "../../../status/finding.ts";
import { storeFindings } from "../../../status/store-findings.ts";
import { workerLimits } from "../../../worker/bindings.ts";
import {
  configOf,
  type Deployment,
  type DeploymentChoice,
  openDeployment,
} from "../../session/deployment.ts";
import { installedTools, sourceOf } from "../../session/local-worker.ts";
import { storesAt } from "../../session/stores.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import type { LoginChoice } from "../cluster/cluster-inspection.ts";
import {
  faultFindings,
  fileFindings,
  keyExchangeFindings,
  toolFindings,
  unreadableRemedy,
  wranglerFindings,
} from "./machine-findings.ts";
import { servingFindings } from "./serving-findings.ts";
import { readinessFindings, worldFindings } from "./world-findings.ts";

/** The deployment to examine, and whom to ask about it. */
export interface ExaminationChoice extends DeploymentChoice, LoginChoice {
  /** Whether no server is called: neither the CA, nor issuers, nor API servers. */
  readonly offline?: boolean;
}

/** A finding, and its source: files by their names, a store, or servers that were asked. */
export interface Judgement extends Finding {
  readonly source: string;
}

/** All that was found in one CA. */
export interface Examination {
  /** The name of the store for sentences; `undefined` if the configuration cannot be read. */
  readonly place: string | undefined;
  readonly at: Date;
  /** The worst come first. */
  readonly findings: readonly Judgement[];
}

/** Marks findings with the source that they come from. */
export const judged = (source: string, findings: readonly Finding[]): readonly Judgement[] =>
  findings.map((each) => ({ ...each, source }));

/**
 * Examines a CA, and changes nothing, except that in a bucket a test object comes and goes.
 * @throws OperatorError if there is no configuration, or a login cannot be read.
 */
export async function examine(choice: ExaminationChoice, terminal: Terminal): Promise<Examination> {
  const now = terminal.clock();
  const config = configOf(choice);
  const opened = await open(choice, terminal, now);
  const source = await sourceOf(config, choice);
  const ofRuntime = [
    ...faultFindings(),
    ...limitFindings(Runtime.limits(), "See `rampart docs deno-and-bun`"),
    ...keyExchangeFindings(CompliancePolicy.isOffered()),
  ];
  const before = [
    ...judged(`the ${Runtime.other ?? "Node"} that runs this`, ofRuntime),
    ...judged(basename(config), await textFindings(config)),
    ...judged("the environment of this command", proxyFindings()),
    ...judged("Cloudflare Workers", basename(config).startsWith("wrangler.") ? ofWorker : []),
    ...judged("AWS Lambda", (await isOfFunction(config)) ? ofFunction : []),
  ];
  if (!("store" in opened)) {
    const findings = Finding.worstFirst([...before, ...judged(source, [opened])]);
    return { place: undefined, at: now, findings };
  }
  try {
    const found = await deploymentFindings(opened, { ...choice, source }, terminal, now);
    return { place: opened.place, at: now, findings: Finding.worstFirst([...before, ...found]) };
  } finally {
    await opened.close();
  }
}

const maximumOctets = 16 * 1024 * 1024;

/** Matches the key that `wrangler deploy` requires and `serve` does not have. */
const compatibilityDate = /^\s*compatibility_date\s*=\s*"([\d-]+)"/m;

/**
 * Finds what is wrong in the text of a configuration, and in the tools of a Worker's project. A file that cannot be read
 * has no findings, nor has a pipe: it can be read only once, and opening the CA reads it.
 * @throws OperatorError for a Worker's configuration without wrangler.
 */
export async function textFindings(config: string): Promise<readonly Finding[]> {
  const text = await textOf(config);
  if (text === undefined) return [];
  const [, date] = compatibilityDate.exec(text) ?? [];
  const ofTools = date === undefined ? [] : toolFindings(installedTools(config), date);
  return [...ofTools, ...wranglerFindings(text)];
}

/** The text of a small file; `undefined` for one that cannot be read. */
async function textOf(path: string): Promise<string | undefined> {
  try {
    return await SmallFile.read(path, maximumOctets);
  } catch (error) {
    if (error instanceof OperatorError) return undefined;
    throw error;
  }
}

const limitFindings = (limits: readonly string[], remedy: string): readonly Finding[] =>
  limits.map((what) => Finding.of("platform-limits", `${what}.`, remedy));

const proxyFindings = (): readonly Finding[] =>
  EnvironmentProxies.sentences().map((what) =>
    Finding.of(
      "connections-proxied",
      `${what}.`,
      "Name in NO_PROXY what is reached without it: `rampart docs environment`",
    ),
  );

const ofWorker = limitFindings(
  [workerLimits],
  "Native gRPC takes the zone's setting or rampart gateway: `rampart docs worker`",
);

const ofFunction = limitFindings(lambdaLimits, "See `rampart docs lambda`");

/** Whether a function for Lambda lies beside a configuration, as docs/tutorials/lambda.md has it. */
async function isOfFunction(config: string): Promise<boolean> {
  const code = await textOf(join(dirname(config), "index.mjs"));
  return code?.includes("@rampart-ca/rampart/lambda") ?? false;
}

async function open(
  choice: DeploymentChoice,
  { environment }: Terminal,
  now: Date,
): Promise<Deployment | Finding> {
  try {
    return await openDeployment({ ...choice, dryRun: true, mayBeNew: true }, environment, now);
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return configurationFault(error.message);
  }
}

/** Makes a finding of the message about an invalid configuration: `kek-missing` or `configuration-invalid`. */
export function configurationFault(message: string): Finding {
  if (/^KEK: is required$/m.test(message)) {
    const what = "The configuration has no KEK.";
    const remedy =
      "Set the environment variable KEK; npm start keeps it in .dev.vars, a deployed Worker in its secret KEK";
    return Finding.of("kek-missing", what, remedy);
  }
  const lines = message.replace(/\.$/, "").split(/\n */);
  // The faults follow a heading, or begin in the first line.
  const what = lines.slice(lines[0]?.endsWith(":") ? 1 : 0).join("; ");
  return Finding.of(
    "configuration-invalid",
    `${what}.`,
    "Correct it as `rampart docs configuration` says",
  );
}

async function deploymentFindings(
  deployment: Deployment,
  choice: ExaminationChoice & Pick<Judgement, "source">,
  terminal: Terminal,
  now: Date,
): Promise<readonly Judgement[]> {
  const { configuration, directory, place } = deployment;
  const records = await recordFindings(deployment, now);
  const isUnreadable = records.some(({ name }) => name === "store-unreadable");
  const files = directory === undefined ? [] : await fileFindings(directory);
  // The finding of the records says more.
  const others = files.filter(({ name }) => !(isUnreadable && name === "store-unreadable"));
  const promises = choice.offline ? [] : await promiseFindings(deployment);
  const world = choice.offline ? [] : await worldFindings(deployment, choice, terminal, now);
  return [
    ...judged(choice.source, configurationFindings(configuration)),
    ...judged(place, [...others, ...records, ...promises]),
    ...judged(
      "TLS_CERTIFICATE_FILE and TLS_KEY_FILE",
      await servingFindings(deployment.certificateFiles, now),
    ),
    ...judged("issuers and clusters, asked now", world),
    ...judged("the CA, asked now", choice.offline ? [] : await readinessFindings(deployment)),
  ];
}

/** Finds whether a bucket keeps what a store relies on. A service that does not answer is a finding of the records. */
async function promiseFindings({ prove }: Deployment): Promise<readonly Finding[]> {
  try {
    await prove?.();
  } catch (error) {
    if (error instanceof FetchError) return [];
    if (!(error instanceof OperatorError)) throw error;
    const what = `T${error.message.slice(1)}.`;
    return [Finding.of("store-overwrites", what, "Take another service: `rampart docs s3`")];
  }
  return [];
}

/** The findings of the unnamed authorities and of every named signer. */
async function recordFindings(deployment: Deployment, now: Date): Promise<readonly Finding[]> {
  const { mint, signerMints } = await storesAt(deployment, now);
  const found = await Promise.all(
    [["", mint] as const, ...signerMints].map(async ([name, each]) => {
      const stored = await load(each.store);
      if ("severity" in stored) return [Finding.ofSigner(name, stored)];
      const opened = await OpenedStore.open(stored.records, each);
      const findings = storeFindings(opened, each.inceptionDate, now);
      return findings.map((one) => Finding.ofSigner(name, one));
    }),
  );
  return found.flat();
}

async function load(
  store: AuthorityStore,
): Promise<Finding | { readonly records: Awaited<ReturnType<AuthorityStore["load"]>> }> {
  try {
    return { records: await store.load() };
  } catch (error) {
    if (error instanceof CaError && error.refusal.reason === "kek-unavailable")
      return Finding.of("kek-unavailable", `T${messageOf(error.cause).slice(1)}.`, kekRemedy);
    const why = error instanceof Error ? error.message : "it failed";
    const what = `The store cannot be read: ${why.replace(/\.$/, "")}.`;
    return Finding.of("store-unreadable", what, unreadableRemedy);
  }
}

const kekRemedy =
  "Look at the key, its service and the credential for it: `rampart docs key-services`";
