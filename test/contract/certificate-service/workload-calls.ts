import { bearer, type Outcome, outcomeOf, type Protocol, requestOf } from "../rpc-calls.ts";
import { issuers, type ServiceUnderTest } from "../service-under-test.ts";

/** The parts of a request that a test sets; a workload's usual ones take the place of the others. */
interface Sending {
  readonly body?: BodyInit | null;
  readonly headers?: Record<string, string>;
  readonly issuer?: string;
}

/** Sends requests of one authenticated workload. */
export interface WorkloadCalls {
  readonly send: (protocol: Protocol, sending: Sending) => Promise<Response>;
  readonly outcome: (protocol: Protocol, sending: Sending) => Promise<Outcome>;
  /** Empty when a certificate was issued. */
  readonly codeOf: (protocol: Protocol, sending: Sending) => Promise<string>;
}

export function createWorkloadCalls(service: ServiceUnderTest, csr: string): WorkloadCalls {
  const send: WorkloadCalls["send"] = async (protocol, { body, headers, issuer }) => {
    const credential = await bearer(service, "foo:bar", issuer ?? issuers.cluster);
    const content = body === undefined ? { csr } : body;
    return service.send(requestOf(protocol, content, { ...credential, ...headers }));
  };
  const outcome: WorkloadCalls["outcome"] = async (protocol, sending) =>
    outcomeOf(protocol, await send(protocol, sending));
  const codeOf: WorkloadCalls["codeOf"] = async (protocol, sending) => {
    const seen = await outcome(protocol, sending);
    return "code" in seen ? seen.code : "";
  };
  return { send, outcome, codeOf };
}

/** A body of these chunks, without a length. */
export function streamOf(...chunks: readonly Uint8Array[]): ReadableStream<Uint8Array> {
  const rest = [...chunks];
  return new ReadableStream({
    pull(controller) {
      const chunk = rest.shift();
      if (chunk) controller.enqueue(chunk);
      else controller.close();
    },
  });
}
