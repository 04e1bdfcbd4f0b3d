import type { EventLog } from "../../ca/issuance/audit-event.ts";
import { Members } from "../../foundation/json.ts";
import type { Spans } from "../../program/telemetry.ts";
import type { RpcResponse, RpcService } from "../../transport/rpc/rpc.ts";
import { statusCodeOf } from "../../transport/rpc/status-code.ts";

/** Records the calls of the service at a path. Without spans, it stays as it is. */
export function traced(spans: Spans | undefined, path: string, service: RpcService): RpcService {
  if (!spans) return service;
  // A form of OAuth that is refused is answered with 400, which stands for a fault of an RPC alone.
  const isRpc = path.lastIndexOf("/") > 0;
  const codeOf = (response: RpcResponse): number | undefined =>
    isRpc || response.status >= 500 ? statusCodeOf(response) : undefined;
  return (request) => spans.call(path.slice(1), request.header, () => service(request), codeOf);
}

/** Has the spans of calls say what the events of the same calls say. */
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
