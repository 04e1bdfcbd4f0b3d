/** Fake API servers of {@link reviewedTables}, which each platform puts behind a server of its own. */
export interface ReviewingApi {
  /** Answers a TokenReview: no to a token of an account named `deleted`, yes to every other. */
  readonly answer: (path: string, body: string) => ReviewAnswer;
  /** The number of questions to the API servers. */
  readonly questions: () => number;
}

export interface ReviewAnswer {
  readonly status: number;
  readonly body: string;
}

/** The API servers at these paths fail with these status codes. */
const troubles: Readonly<Record<string, number>> = { "/busy": 429, "/away": 503 };

export function createReviewingApi(): ReviewingApi {
  let questions = 0;
  return {
    answer: (path, body) => {
      questions++;
      const trouble = troubles[path.slice(0, path.indexOf("/", 1))];
      return trouble ? { status: trouble, body: "{}" } : { status: 201, body: review(body) };
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
