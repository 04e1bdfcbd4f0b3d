/** Fake API servers of clusters, which each platform puts behind a server of its own. */
interface ReviewingApi {
  /**
   * Answers a TokenReview: no to a token of an account named `deleted`, yes to every other. Answers a GET about
   * {@link pods}.
   */
  readonly answer: (path: string, body: string) => ApiAnswer;
  /** The number of reviews that the API servers were asked for. */
  readonly questions: () => number;
}

interface ApiAnswer {
  readonly status: number;
  readonly body: string;
}

/** The API servers at these paths fail with these status codes. */
const troubles: Readonly<Record<string, number>> = { "/busy": 429, "/away": 503 };

/** The other API servers have these pods. The first is that of the tokens of `istio-system:ztunnel`. */
const pods = [
  pod("istio-system", "ztunnel", "node-1", { uid: "2d5b7f6a-0f0e-4bb5-8a3f-6a0f2f3c4d21" }),
  pod("foo", "bar", "node-1"),
  pod("foo", "elsewhere", "node-2"),
  pod("foo", "ended", "node-1", { phase: "Succeeded" }),
];

export function createReviewingApi(): ReviewingApi {
  let questions = 0;
  return {
    answer: (path, body) => {
      if (body !== "") questions++;
      const trouble = troubles[path.slice(0, path.indexOf("/", 1))];
      if (trouble) return { status: trouble, body: "{}" };
      return body === "" ? podsAt(path) : { status: 201, body: review(body) };
    },
    questions: () => questions,
  };
}

function review(body: string): string {
  const { apiVersion, kind, spec } = JSON.parse(body);
  const { sub } = JSON.parse(atob(spec.token.split(".")[1].replace(/-/g, "+").replace(/_/g, "/")));
  const isThere = !sub.endsWith(":deleted");
  const user = { username: sub, groups: ["system:serviceaccounts"] };
  const status = isThere ? { authenticated: true, audiences: spec.audiences, user } : {};
  return JSON.stringify({ apiVersion, kind, status });
}

/** One pod by its name, or every pod of a namespace, without regard to selectors. It lets nobody watch. */
function podsAt(path: string): ApiAnswer {
  const [, namespace, name] =
    /\/api\/v1\/namespaces\/([^/]+)\/pods(?:\/([^/?]+))?(?:\?.*)?$/.exec(path) ?? [];
  if (namespace === undefined) return { status: 403, body: "{}" };
  const own = pods.filter(({ metadata }) => metadata.namespace === namespace);
  if (name === undefined) return { status: 200, body: JSON.stringify({ items: own }) };
  const found = own.find(({ metadata }) => metadata.name === name);
  return { status: found ? 200 : 404, body: JSON.stringify(found ?? {}) };
}

function pod(
  namespace: string,
  account: string,
  nodeName: string,
  { uid = account, phase = "Running" } = {},
) {
  return {
    metadata: { namespace, name: `${account}-0`, uid },
    spec: { serviceAccountName: account, nodeName },
    status: { phase },
  };
}
