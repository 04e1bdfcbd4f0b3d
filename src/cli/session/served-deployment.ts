import type { Configuration } from "../../config/configuration.ts";
import {
  openFileStore,
  openSignerStores,
  viewFileStore,
  viewSignerStore,
} from "../../node/files/file-store.ts";
import { parseServeConfiguration } from "../../node/serve/serve-configuration.ts";
import type { BucketPlace } from "../../node/stores/bucket-place.ts";
import type { NamespacePlace } from "../../node/stores/store-place.ts";
import { bucketStores, openNamespaceServer, secretStores } from "../../node/stores/stores.ts";
import { orOperatorError } from "../terminal/operator-error.ts";
import { readKubeconfig } from "./kubeconfig.ts";
import type { Deployment } from "./opened-deployment.ts";

/** The store of `rampart serve`, which reads a change within its propagation interval. */
export async function openServed(
  values: Record<string, unknown>,
  environment: NodeJS.ProcessEnv,
  isDry: boolean,
): Promise<Deployment> {
  return orOperatorError(async () => {
    const { ca, store } = parseServeConfiguration(values, environment);
    switch (store.kind) {
      case "directory":
        return openDirectory(ca, store.directory, isDry);
      case "kubernetes":
        return openNamespace(ca, store, environment);
      case "s3":
        return openBucketStores(ca, store);
    }
  });
}

async function openDirectory(
  configuration: Configuration,
  directory: string,
  isDry: boolean,
): Promise<Deployment> {
  const files = { storeDirectory: directory, ca: configuration };
  return {
    configuration,
    store: isDry ? viewFileStore(directory) : await openFileStore(directory),
    signerStore: isDry ? viewSignerStore(directory) : await openSignerStores(files),
    place: `files in ${directory}`,
    directory,
    close: async () => {},
  };
}

async function openBucketStores(
  configuration: Configuration,
  place: BucketPlace,
): Promise<Deployment> {
  return {
    configuration,
    ...(await bucketStores(place, () => new Date())),
    place: `objects of ${place.url}/${place.prefix}`.replace(/\/$/, ""),
    close: async () => {},
  };
}

/** A session that is dry keeps its writes, and opening these stores writes nothing. */
async function openNamespace(
  configuration: Configuration,
  place: NamespacePlace,
  environment: NodeJS.ProcessEnv,
): Promise<Deployment> {
  const { namespace, apiServer } = place;
  const { client, server } = apiServer
    ? { client: await openNamespaceServer(place), server: apiServer.server }
    : await readKubeconfig(undefined, undefined, environment);
  return {
    configuration,
    ...secretStores(client, namespace, server),
    place: `Secrets of namespace ${namespace} at ${server}`,
    close: async () => {},
  };
}
