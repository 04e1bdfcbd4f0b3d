import type { Claims } from "./tokens.ts";

/** The claims that platforms document for their tokens. Nobody here has their keys. */
export const platformClaims = {
  github: {
    iss: "https://token.actions.githubusercontent.com",
    sub: "repo:octo-org@7/octo-repo@74:environment:prod",
    aud: "https://ca.test",
    jti: "example-id",
    environment: "prod",
    ref: "refs/heads/main",
    ref_protected: "true",
    ref_type: "branch",
    repository: "octo-org/octo-repo",
    repository_id: "74",
    repository_owner: "octo-org",
    repository_owner_id: "7",
    event_name: "push",
    job_workflow_ref: "octo-org/octo-automation/.github/workflows/oidc.yml@refs/heads/main",
    runner_environment: "github-hosted",
    run_id: "577902066",
  },
  gitlab: {
    iss: "https://gitlab.test",
    sub: "project_path:my-group/my-project:ref_type:branch:ref:main",
    aud: "https://ca.test",
    jti: "235b3a54-b797-45c7-ae9a-f72d7bc6ef5b",
    namespace_id: "72",
    project_id: "20",
    job_project_id: "20",
    project_path: "my-group/my-project",
    pipeline_source: "push",
    ref: "main",
    ref_type: "branch",
    ref_protected: "true",
    environment: "production",
    environment_protected: "true",
    runner_id: 1,
    groups_direct: ["my-group", "other-group"],
  },
  aws: {
    iss: "https://e1a0f8f2-6f0e-4f7b-9f4e-1f1f2d3c4b5a.tokens.sts.global.api.aws",
    sub: "arn:aws:iam::111122223333:role/build",
    aud: "https://ca.test",
    jti: "4b8ecf1c-1d55-46e8-a2b7-2b3a6c8a7c11",
    "https://sts.amazonaws.com/": {
      aws_account: "111122223333",
      org_id: "o-a1b2c3d4e5",
      principal_id: "arn:aws:iam::111122223333:role/build",
      request_tags: { team: "payments" },
      lambda_source_function_arn: "arn:aws:lambda:eu-central-1:111122223333:function:build",
    },
  },
  google: {
    iss: "https://accounts.google.com",
    sub: "112010400000000710080",
    azp: "112010400000000710080",
    aud: "https://ca.test",
    email: "build@prod.iam.gserviceaccount.com",
    email_verified: true,
    google: {
      compute_engine: {
        instance_id: "152986662232938449",
        instance_name: "build-1",
        project_id: "prod",
        project_number: 739419398126,
        zone: "us-west1-b",
      },
    },
  },
  azure: {
    iss: "https://login.microsoftonline.com/7f1c0e64-9fd5-4d4b-8f7f-0f2f2a6a1c55/v2.0",
    sub: "9a8b7c6d-5e4f-4a3b-8c2d-1e0f9a8b7c6d",
    aud: "00000000-1111-2222-3333-444444444444",
    oid: "9a8b7c6d-5e4f-4a3b-8c2d-1e0f9a8b7c6d",
    tid: "7f1c0e64-9fd5-4d4b-8f7f-0f2f2a6a1c55",
    uti: "Zm9vYmFyYmF6",
    idtyp: "app",
  },
  spiffe: {
    iss: "https://oidc.other.test",
    sub: "spiffe://other.test/ns/billing/sa/report",
    aud: ["https://ca.test"],
  },
} as const satisfies Record<string, Claims>;

/** A token of a platform, minted a minute ago for five more. */
export function claimsOf(platform: keyof typeof platformClaims, now: Date): Claims {
  const issuedAt = Math.floor(now.getTime() / 1000) - 60;
  return { ...platformClaims[platform], iat: issuedAt, exp: issuedAt + 360 };
}
