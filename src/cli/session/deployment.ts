import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import type { Configuration } from "../../config/configuration.ts";
import { credentialName } from "../../config/secrets.ts";
import { InceptionDate } from "../../config/signer-table.ts";
import type { AuthorityStore } from "../../custody/authority-store.ts";
import { OperatorError } from "../../foundation/errors.ts";
import { ConfigurationFile } from "../../node/files/configuration-file.ts";
import { FileStore } from "../../node/files/file-store.ts";
import { readyUrlAt } from "../../node/files/places.ts";
import { ServeConfiguration } from "../../node/serve/serve-configuration.ts";
import type { BucketPlace, NamespacePlace } from "../../node/stores/store-place.ts";
import { ReplicaStores } from "../../node/stores/stores.ts";
import type { CertificateFiles } from "../../node/tls.ts";
import { kvStores } from "../../worker/kv-store.ts";
import { orOperatorError } from "../terminal/failures.ts";
import type { CaChoice } from "../terminal/terminal.ts";
import { readKubeconfig } from "./kubeconfig.ts";
import {
  deployedReadyUrl,
  openLocalWorker,
  readConfig,
  readConfiguration,
  viewLocalWorker,
} from "./local-worker.ts";
import { createRemoteNamespace } from "./remote-namespace.ts";

/** The CA of a verb, as its options choose it. */
export interface DeploymentChoice extends CaChoice {
  /** Whether nothing is to be written, neither records nor folders. */
  readonly dryRun?: boolean;
  /** Whether the folder of its store may be missing: the verb imports authorities, or only reads. */
  readonly mayBeNew?: boolean;
}

type DatedChoice = DeploymentChoice & { readonly now: Date };

/**
 * Opens the store that the options choose: a deployed Worker's, that of `rampart serve`, or the local Worker's. The
 * caller closes it. With `dryRun`, a store of files is read-only, and the local Worker's is a copy; any other store is
 * writable, so the caller must not write.
 * @throws OperatorError for a missing or invalid configuration, and a missing folder of a store that is not new.
 */
export async function openDeployment(
  choice: DeploymentChoice,
  environment: NodeJS.ProcessEnv,
  now: Date,
): Promise<Deployment> {
  const config = resolve(configOf(choice));
  if (choice.remote) return openRemote(config, choice.env, environment);
  const files = await readServeValues(config, environment);
  if (!files) return openLocal(config, choice, environment);
  return openServed(files, { ...choice, now }, environment);
}

const usualFiles = ["wrangler.toml", "rampart.toml"];

/**
 * Finds the configuration of a verb: the named file, or else `wrangler.toml` or `rampart.toml` of this folder.
 * @throws OperatorError if there is none, or both of the usual ones.
 */
export function configOf(
  { config }: Pick<DeploymentChoice, "config">,
  folder: string = process.cwd(),
): string {
  if (config !== undefined) {
    if (existsSync(config)) return config;
    throw new OperatorError(`${config} does not exist: name the configuration with --config`);
  }
  const [found, another] = usualFiles.filter((file) => existsSync(join(folder, file)));
  if (found === undefined) {
    throw new OperatorError(
      `neither ${usualFiles.join(" nor ")} is in this folder: name the configuration with --config`,
    );
  }
  if (another === undefined) return found;
  throw new OperatorError(
    `this folder has ${usualFiles.join(" and ")}, which are two CAs: choose one with --config`,
  );
}

/** Reads a `rampart.toml`. @returns `undefined` for a `wrangler.toml`, which has no key for a store. */
async function readServeValues(
  config: string,
  environment: NodeJS.ProcessEnv,
): Promise<Record<string, unknown> | undefined> {
  if (!config.endsWith(".toml")) return undefined;
  const values = await orOperatorError(() => ConfigurationFile.read(config, environment));
  return "STORE_DIRECTORY" in values || "STORE" in values ? values : undefined;
}

async function openLocal(
  config: string,
  { env, dryRun }: DeploymentChoice,
  environment: NodeJS.ProcessEnv,
): Promise<Deployment> {
  const open = dryRun ? viewLocalWorker : openLocalWorker;
  const { variables, namespace, close } = await open(config, env);
  try {
    const configuration = readConfiguration(
      { ...credentialsIn(environment), ...variables },
      "it belongs into .dev.vars, which npm start writes",
    );
    const place = `local state of ${dirname(config)}`;
    return { configuration, ...kvStores(namespace), place, environment, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function openRemote(
  config: string,
  env: string | undefined,
  environment: NodeJS.ProcessEnv,
): Promise<Deployment> {
  const { KEK } = environment;
  const { vars, routes = [] } = await readConfig(config, env);
  const variables = { ...vars, ...(KEK && { KEK }) };
  const configuration = readConfiguration(
    { ...credentialsIn(environment), ...variables },
    "set the environment variable KEK to the Worker's secret; Cloudflare does not show it again",
  );
  const namespace = createRemoteNamespace(config, env, environment);
  const place = env ? `deployed namespace of ${env}` : "deployed namespace";
  const readyUrl = deployedReadyUrl(routes);
  const close = async (): Promise<void> => {};
  return { configuration, ...kvStores(namespace), place, readyUrl, environment, close };
}

/** The clusters' credentials in the environment. Any may be missing, because the Worker has them as secrets. */
function credentialsIn(environment: NodeJS.ProcessEnv): Record<string, unknown> {
  const entries = Object.entries(environment).filter(([name]) => credentialName.test(name));
  return Object.fromEntries(entries.map(([name, value]) => [name, value?.trim()]));
}

type OpenedDeployment = Omit<Deployment, "environment">;

/** Opens the store of `rampart serve`, which sees a change made here within its propagation interval. */
async function openServed(
  values: Record<string, unknown>,
  choice: DatedChoice,
  environment: NodeJS.ProcessEnv,
): Promise<Deployment> {
  return orOperatorError(async () => {
    const { ca, store, ...own } = ServeConfiguration.parse(values, environment);
    const { certificateFiles, monitoringListen } = own;
    const files = { certificateFiles, readyUrl: readyUrlAt(monitoringListen), environment };
    switch (store.kind) {
      case "directory":
        return { ...(await openDirectory(ca, store.directory, choice)), ...files };
      case "kubernetes":
        return { ...(await openNamespace(ca, store, environment)), ...files };
      case "s3":
        return { ...(await openBucketStores(ca, store)), ...files };
    }
  });
}

async function openDirectory(
  configuration: Configuration,
  directory: string,
  { dryRun: isDry = false, mayBeNew, now }: DatedChoice,
): Promise<OpenedDeployment> {
  if (!mayBeNew) requireFolder(directory, configuration, now);
  const files = { storeDirectory: directory, ca: configuration };
  return {
    configuration,
    store: isDry ? FileStore.view(directory) : await FileStore.open(directory),
    signerStore: isDry ? FileStore.viewSigner(directory) : await FileStore.openSigners(files),
    place: `files in ${directory}`,
    directory,
    close: async () => {},
  };
}

/** Refuses a missing folder once the inception date is over: its volume may not be mounted. */
function requireFolder(directory: string, configuration: Configuration, now: Date): void {
  const { inceptionDate: day, signers } = configuration;
  const days = [day, ...signers.map(({ inception_date }) => inception_date)];
  const over = days.find((each) => InceptionDate.isOver(each, now));
  if (over === undefined || existsSync(directory)) return;
  throw new OperatorError(
    `${directory} does not exist, and INCEPTION_DATE ${over} is over: look whether its volume is mounted.\n` +
      `For a new CA, set INCEPTION_DATE = "${InceptionDate.dayOf(now)}"`,
  );
}

async function openBucketStores(
  configuration: Configuration,
  place: BucketPlace,
): Promise<OpenedDeployment> {
  return {
    configuration,
    ...(await ReplicaStores.inBucket(place, () => new Date())),
    place: `objects of ${place.url}/${place.prefix}`.replace(/\/$/, ""),
    close: async () => {},
  };
}

/** Opens the stores in Secrets. Opening writes nothing, and a dry session does not write to them. */
async function openNamespace(
  configuration: Configuration,
  place: NamespacePlace,
  environment: NodeJS.ProcessEnv,
): Promise<OpenedDeployment> {
  const { namespace, apiServer } = place;
  const { client, server } = apiServer
    ? { client: await ReplicaStores.openServer(place), server: apiServer.server }
    : await readKubeconfig(undefined, undefined, environment);
  return {
    configuration,
    ...ReplicaStores.inSecrets(client, namespace, server),
    place: `Secrets of namespace ${namespace} at ${server}`,
    close: async () => {},
  };
}

/** A CA that a verb can read and change. */
export interface Deployment {
  readonly configuration: Configuration;
  readonly store: AuthorityStore;
  readonly signerStore: (signer: string) => AuthorityStore;
  /** What and where the store is, as words for a person. */
  readonly place: string;
  /**
   * Tests with a test object that a bucket keeps what a store relies on; absent for other stores.
   * @throws OperatorError if it does not, FetchError if it does not answer.
   */
  readonly prove?: () => Promise<void>;
  /** The folder of a store of files. */
  readonly directory?: string;
  /** The files of the server's certificate; absent if the CA issues it itself. */
  readonly certificateFiles?: CertificateFiles | undefined;
  /** The URL of the CA's `/readyz`; absent if the configuration does not tell it. */
  readonly readyUrl?: string | undefined;
  readonly environment: Readonly<Record<string, string | undefined>>;
  close(): Promise<void>;
}
