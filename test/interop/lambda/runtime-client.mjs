// What the runtime of AWS does in an instance: it loads the handler, and gives it one event after the other.
const { AWS_LAMBDA_RUNTIME_API, LAMBDA_TASK_ROOT } = process.env;
const base = `http://${AWS_LAMBDA_RUNTIME_API}/2018-06-01/runtime`;
const { handler } = await import(`${LAMBDA_TASK_ROOT}/index.mjs`);

for (;;) {
  const next = await fetch(`${base}/invocation/next`);
  const id = next.headers.get("lambda-runtime-aws-request-id");
  const event = await next.json();
  const [path, answer] = await handler(event).then(
    (result) => ["response", result ?? null],
    (error) => ["error", { errorType: error.name, errorMessage: error.message }],
  );
  const body = JSON.stringify(answer);
  await (await fetch(`${base}/invocation/${id}/${path}`, { method: "POST", body })).text();
}
