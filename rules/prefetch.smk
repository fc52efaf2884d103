# Needs: the network, or a mirror folder. Makes: all that the configured data sets and the backbone
# take from outside, so that the rest can run on nodes without a network.


rule prefetch:
    input:
        prefetch_inputs,
    localrule: True
