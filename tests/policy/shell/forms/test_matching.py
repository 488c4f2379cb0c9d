"""A deny matches every spelling of its command, and no other command."""

from __future__ import annotations

import pytest

from ledger.core.policy import Verdict
from tests.policy.shell.simple_rules import verdict
from tests.support.rows import every

REACHED = {
    "rm -rf": ["rm -r -f x", "rm -fr x", "rm x -rf", "rm --rec --fo x", "rm -Rf x", "/bin/rm -rvf -- x", "env rm -rf x"],
    "rm -r": ["rm -R x", "rm -rf x"],
    "git push": ["git -P push", "git --no-pager push origin", "git --literal-pathspecs push", "git -C . push"],
    "git push --force": ["git push -f", "git push origin +main", "git push --mirror", "git push -uf origin x"],
    "git push -f": ["git push --force origin", "git push origin x --force"],
    "git push origin main": [
        "git push -q origin main", "git push -u origin HEAD:main", "git push origin +x:refs/heads/main",
    ],
    "git push --delete": ["git push origin :x", "git push -d origin x"],
    "git commit --no-verify": ["git commit -n -m x", "git commit -nm x"],
    "git branch -D": ["git branch -d -f x", "git branch --delete --force x", "git branch -df x"],
    "git clean -fd": ["git clean -d -f", "git clean -xdf"],
    "git switch -C": ["git switch --force-create x"],
    "git config --global": ["git config --global a b", "git config a b --global"],
    "npm run deploy": ["npm rum deploy", "npm --silent run deploy", "npm run -s deploy", "npm run-script deploy -- x"],
    "npm test": ["npm t", "npm run test", "npm run-script test"],
    "npm run test": ["npm test", "npm tst"],
    "npm install": ["npm i x", "npm add x"],
    "yarn run deploy": ["yarn deploy", "yarn run -s deploy"],
    "make deploy": ["make all deploy", "make -j4 deploy", "make X=1 deploy", "make -- deploy", "gmake deploy"],
    "docker push": ["docker image push x"],
    "docker rm -f": ["docker rm --force x", "docker container rm -fv x"],
    "kubectl delete": ["kubectl -n x delete pod y", "kubectl --namespace=x delete y"],
    "gh pr merge": ["gh pr -R o/r merge 1", "gh pr merge --squash 1"],
    "gh api -X DELETE": ["gh api --method DELETE x", "gh api x -XDELETE"],
    "pip install": ["pip3 install x", "pip -q install x"],
    "cargo test": ["cargo t", "cargo -q test"],
    "curl -d": ["curl --data x http://a", "curl -dx http://a"],
    "curl -X POST": ["curl -XPOST http://a", "curl --request=POST http://a"],
    "tar -x": ["tar xf a", "tar --extract -f a"],
    "cp -r": ["cp -R a b", "cp -a a b"],
    "sed -i": ["sed --in-place s/a/b/ x", "sed -n -i s/a/b/ x"],
    "bundle exec": ["bundle e rake"],
    "mvn deploy": ["mvn -q clean deploy"],
}  # fmt: skip
UNREACHED = {
    "rm -rf": ["rm -r x", "rm -f x"],
    "git push": ["git commit -m push", "git log push"],
    "git push --force": ["git push", "git push --force-with-lease origin x"],
    "git push origin main": ["git push origin main2", "git push origin main:other"],
    "git branch -D": ["git branch -d x", "git branch --force x"],
    "npm run deploy": ["npm run build", "npm run build -- deploy"],
    "npm test": ["npm run build"],
    "make deploy": ["make build", "make DEPLOY=deploy"],
    "curl -d": ["curl http://a"],
    "docker push": ["docker pull push"],
}


def rows(table: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(deny, line) for deny, lines in table.items() for line in lines]


@every(("deny", "line"), rows(REACHED))
def test_a_deny_reaches_every_spelling_of_what_it_says(deny: str, line: str) -> None:
    assert verdict(line, ["tool"], [f"prefix {deny}"]) is Verdict.DENY


@pytest.mark.parametrize(("deny", "line"), rows(UNREACHED))
def test_a_deny_does_not_reach_what_it_does_not_say(deny: str, line: str) -> None:
    assert verdict(line, ["tool"], [f"prefix {deny}"]) is not Verdict.DENY
