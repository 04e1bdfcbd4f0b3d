import type { Telemetry } from "../../../program/telemetry.ts";
import { orOperatorError } from "../../terminal/failures.ts";
import type { Terminal } from "../../terminal/terminal.ts";

const endpoint = /^OTEL_EXPORTER_OTLP_(?:(?:METRICS|TRACES)_)?ENDPOINT$/;

/**
 * Opens the export of a program's telemetry, whose code is loaded only then.
 * @returns `undefined` if no variable names an endpoint, or if the variables switch the export off.
 * @throws OperatorError for malformed variables.
 */
export async function telemetryOf(
  program: string,
  { environment, clock }: Pick<Terminal, "environment" | "clock">,
): Promise<Telemetry | undefined> {
  if (!Object.keys(environment).some((name) => endpoint.test(name))) return undefined;
  const { openTelemetry } = await import("../../../program/otlp/telemetry.ts");
  return orOperatorError(() => openTelemetry(environment, program, clock));
}
