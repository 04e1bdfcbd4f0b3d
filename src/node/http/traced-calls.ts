import type { EventLog } from "../../ca/issuance/event-log.ts";
import { Members } from "../../foundation/json-members.ts";
import type { Spans } from "../../program/telemetry.ts";
import type { RpcResponse, RpcService } from "../../transport/rpc/rpc.ts";
import { statusCodeOf } from "../../transport/rpc/status-code.ts";

/** Wraps a service so that its calls are recorded as spans. Without `spans` it is returned unchanged. */
export function traced(spans: Spans | undefined, path: string, service: RpcService): RpcService {
  if (!spans) return service;
  // A refused form of OAuth has status 400, which is an error only of an RPC.
  const isRpc = path.lastIndexOf("/") > 0;
  const codeOf = (response: RpcResponse): number | undefined =>
    isRpc || response.status >= 500 ? statusCodeOf(response) : undefined;
  return (request) => spans.call(path.slice(1), request.header, () => service(request), codeOf);
}

/** Wraps a log so that the event of a call is also noted in its span. Without `spans` it is returned unchanged. */
export function notingSpans(log: EventLog, spans: Spans | undefined): EventLog {
  if (!spans) return log;
  const noted =
    <Event extends { readonly event: string }>(take: (event: Event) => void) =>
    (event: Event): void => {
      spans.note(Members.of(event));
      take(event);
    };
  return { audit: noted(log.audit), operation: noted(log.operation) };
}
