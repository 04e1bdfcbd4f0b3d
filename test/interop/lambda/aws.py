"""moto, which stands for AWS, with what its CloudFormation lacks for `sam deploy`: AWS's own transform, outputs, URLs."""

import json
import os
import sys

import yaml
from moto.awslambda.models import lambda_backends
from moto.cloudformation.models import CloudFormationBackend
from moto.cloudformation.utils import yaml_tag_constructor
from moto.core.common_models import CloudFormationModel
from moto.server import main
from samtranslator.translator.transform import transform


class ManagedPolicies:
    def load(self):
        name = "AWSLambdaBasicExecutionRole"
        return {name: f"arn:aws:iam::aws:policy/service-role/{name}"}


class FunctionUrl(CloudFormationModel):
    # moto takes the name of the service from it.
    __module__ = "moto.awslambda.urls"

    def __init__(self, url):
        self.url = url

    @property
    def physical_resource_id(self):
        return self.url

    @staticmethod
    def cloudformation_name_type():
        return "TargetFunctionArn"

    @staticmethod
    def cloudformation_type():
        return "AWS::Lambda::Url"

    @classmethod
    def create_from_cloudformation_json(cls, _, resource, account_id, region_name, **kwargs):
        values = resource["Properties"]
        backend = lambda_backends[account_id][region_name]
        made = backend.create_function_url_config(values["TargetFunctionArn"], values)
        return cls(f"{made.url}/")

    @classmethod
    def has_cfn_attr(cls, attr):
        return attr == "FunctionUrl"

    def get_cfn_attribute(self, _):
        return self.url


create_change_set = CloudFormationBackend.create_change_set
execute_change_set = CloudFormationBackend.execute_change_set


def create_transformed(self, *, template, parameters, **others):
    yaml.add_multi_constructor("", yaml_tag_constructor)
    parsed = yaml.load(template, Loader=yaml.Loader)
    if parsed.get("Transform") == "AWS::Serverless-2016-10-31":
        template = json.dumps(transform(parsed, dict(parameters), ManagedPolicies()))
    return create_change_set(self, template=template, parameters=parameters, **others)


def execute_with_outputs(self, *, stack_name, change_set_name):
    execute_change_set(self, stack_name=stack_name, change_set_name=change_set_name)
    [stack] = self.describe_stacks(stack_name)
    stack._parse_template()
    stack.output_map = stack._create_output_map()


os.environ["AWS_DEFAULT_REGION"] = "eu-central-1"
CloudFormationBackend.create_change_set = create_transformed
CloudFormationBackend.execute_change_set = execute_with_outputs
main(sys.argv[1:])
