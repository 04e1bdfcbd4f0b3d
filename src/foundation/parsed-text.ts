import * as z from "zod/mini";

const text = z.string();

/** A text as what `parse` makes of it; where that is nothing, it is refused with this sentence. */
export function parsedText<Parsed>(
  parse: (text: string) => Parsed | undefined,
  sentence: string,
): z.ZodMiniType<Parsed, string> {
  const parsing = z.transform((value: string, context) => {
    const parsed = parse(value);
    return parsed === undefined ? refuse(context, sentence) : parsed;
  });
  return z.pipe(text, parsing);
}

/** What a transformation returns for a value that it refuses. The sentence must not quote the value. */
export function refuse(context: z.core.ParsePayload, sentence: string): never {
  context.issues.push({ code: "custom", message: sentence, input: context.value });
  return z.NEVER;
}
