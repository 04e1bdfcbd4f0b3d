import { version } from "../../foundation/build.ts";
import { Members } from "../../foundation/json-members.ts";

/** Writes what requests of OTLP have in common, in JSON (opentelemetry-proto 1.11). */
export const OtlpValue = {
  /** An instant of Unix time in nanoseconds, rounded to microseconds, as a decimal text. */
  nanoseconds: (milliseconds: number): string =>
    String(BigInt(Math.round(1000 * milliseconds)) * 1000n),

  /** Members as attributes, without those that are `undefined`. */
  attributes(members: Members): readonly object[] {
    return Object.entries(members)
      .filter(([, value]) => value !== undefined)
      .map(([key, value]) => ({ key, value: OtlpValue.of(value) }));
  },

  /** A JSON value as an `AnyValue`, which is empty for `null`. */
  of(value: unknown): object {
    if (typeof value === "string") return { stringValue: value };
    if (typeof value === "boolean") return { boolValue: value };
    if (Array.isArray(value)) return { arrayValue: { values: value.map(OtlpValue.of) } };
    if (typeof value !== "number")
      return value ? { kvlistValue: { values: OtlpValue.attributes(Members.of(value)) } } : {};
    return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value };
  },

  /** The `Resource` that names the sending program. `others` may replace `service.name`. */
  resource: (name: string, others: Members = {}): object => ({
    attributes: OtlpValue.attributes({
      "service.name": name,
      "service.version": version,
      ...others,
    }),
  }),
};
