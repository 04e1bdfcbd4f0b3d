import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type Credential, KubernetesClient } from "../../../src/kubernetes/client.ts";
import type { ReachableCluster } from "../../../src/kubernetes/cluster-api.ts";
import { ClusterApi } from "../../../src/kubernetes/cluster-api.ts";
import { listenOnLoopback } from "../network/loopback.ts";
import { fitsSelector } from "./field-selector.ts";

/** The fields of a pod that tests need. */
export interface FakePod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly account: string;
  readonly node: string;
  readonly phase?: "Pending" | "Running" | "Succeeded" | "Failed";
}

/** A request that an API server got. */
interface Asked {
  readonly method: string;
  readonly url: string;
  readonly authorization: string | undefined;
  readonly body: string;
}

/** Answers a TokenReview: the `status` for a token. */
type Review = (token: string, audiences: readonly string[]) => unknown;

/**
 * A stand-in for a kube-apiserver, over real HTTP. It follows the documented API; `test/interop/kubernetes`
 * runs the same code against a real one.
 */
export interface FakeApiServer {
  readonly origin: string;
  readonly asked: Asked[];
  readonly pods: FakePod[];
  review: Review;
  /** While set, it answers every request. */
  instead: ((request: IncomingMessage, response: ServerResponse) => void) | undefined;
  close(): Promise<void>;
}

/** The one credential that a fake API server accepts. */
export const apiCredential = "credential-of-rampart";

/** The API of a cluster with this server. */
export function clusterApiAt(
  { origin: server }: FakeApiServer,
  cluster: string,
  failed: ReachableCluster["failed"] = () => {},
  credential: Credential = () => apiCredential,
): ClusterApi {
  const client = KubernetesClient.create({ server, credential }, fetch);
  return ClusterApi.create({ cluster, client, failed });
}

export async function startApiServer(): Promise<FakeApiServer> {
  const server = createServer((request, response) => {
    void answer(fake, request, response);
  });
  const { host, close } = await listenOnLoopback(server);
  const fake: FakeApiServer = {
    origin: `http://${host}`,
    asked: [],
    pods: [],
    review: () => ({ user: {} }),
    instead: undefined,
    close,
  };
  return fake;
}

async function answer(
  fake: FakeApiServer,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const { method = "", url = "", headers } = request;
  const body = Buffer.concat(chunks).toString("utf8");
  fake.asked.push({ method, url, authorization: headers.authorization, body });
  if (fake.instead) return fake.instead(request, response);
  const [status, json] =
    headers.authorization === `Bearer ${apiCredential}`
      ? answerOf(fake, method, new URL(url, fake.origin), body)
      : [401, failure("Unauthorized", 401)];
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(json));
}

function answerOf(fake: FakeApiServer, method: string, url: URL, body: string): [number, unknown] {
  if (method === "POST" && url.pathname === "/apis/authentication.k8s.io/v1/tokenreviews") {
    return [201, reviewOf(fake, JSON.parse(body))];
  }
  const [, namespace, name] =
    /^\/api\/v1\/namespaces\/([^/]+)\/pods(?:\/([^/]+))?$/.exec(url.pathname) ?? [];
  if (method !== "GET" || namespace === undefined) return [404, failure("NotFound", 404)];
  const pods = fake.pods.filter((pod) => pod.namespace === namespace);
  if (name === undefined) return [200, podList(pods, url.searchParams)];
  const pod = pods.find((each) => each.name === name);
  return pod ? [200, podJson(pod)] : [404, failure("NotFound", 404)];
}

function reviewOf(
  fake: FakeApiServer,
  { apiVersion, kind, spec }: Readonly<Record<string, never>>,
): unknown {
  const { token, audiences } = spec as unknown as { token: string; audiences: string[] };
  const status = fake.review(token, audiences);
  return { apiVersion, kind, metadata: {}, spec: { token, audiences }, status };
}

function podList(pods: readonly FakePod[], query: URLSearchParams): unknown {
  const limit = Number(query.get("limit") ?? 500);
  const items = pods.map(podJson).filter((pod) => fitsSelector(pod, query.get("fieldSelector")));
  return { kind: "PodList", apiVersion: "v1", metadata: {}, items: items.slice(0, limit) };
}

/** A pod as the API has it, without fields that nothing here reads. */
export function podJson({ namespace, name, uid, account, node, phase = "Running" }: FakePod) {
  return {
    kind: "Pod",
    apiVersion: "v1",
    metadata: { name, namespace, uid },
    spec: { serviceAccountName: account, nodeName: node, containers: [] },
    status: { phase },
  };
}

const failure = (reason: string, code: number): unknown => ({
  kind: "Status",
  apiVersion: "v1",
  metadata: {},
  status: "Failure",
  message: reason,
  reason,
  code,
});

/** The review of a good token of an account, bound to a pod. */
export function goodReview(account: string, changes: Readonly<Record<string, unknown>> = {}) {
  const [namespace, name] = account.split(":");
  return {
    authenticated: true,
    user: {
      username: `system:serviceaccount:${account}`,
      uid: "9a8b7c6d-5e4f-4a3b-8c2d-1e0f9a8b7c6d",
      groups: [
        "system:serviceaccounts",
        `system:serviceaccounts:${namespace}`,
        "system:authenticated",
      ],
      extra: {
        "authentication.kubernetes.io/credential-id": ["JTI=6ae0e1a1-4b44-4ad6-9f43-0c1f9a7a3a60"],
        "authentication.kubernetes.io/node-name": ["node-1"],
        "authentication.kubernetes.io/node-uid": ["55d4cb0f-6a8a-4b6e-a0a6-0d3a5f6a8a11"],
        "authentication.kubernetes.io/pod-name": [`${name}-0`],
        "authentication.kubernetes.io/pod-uid": ["2d5b7f6a-0f0e-4bb5-8a3f-6a0f2f3c4d21"],
      },
    },
    audiences: ["istio-ca"],
    ...changes,
  };
}
