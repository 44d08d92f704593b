"""The plain strategy: autograd keeps what backward needs, and one batch makes one update."""

from gradscope.worker.contract import Strategy

STRATEGY = Strategy(name="standard")
